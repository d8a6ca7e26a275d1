"""Adapter modules under a profile with an allowlist: their tests reach only the listed hosts."""

from __future__ import annotations

from dataclasses import replace

from assayd.kinds.module.generating import MANIFEST
from assayd.kinds.module.validator import ModulePayload, validator
from assayd.model.merge import JudgedRun, decide_verdict, merge_stages
from assayd.model.policy import ExecutionPolicy
from assayd.model.run import RunResult, derive_attempt_limits
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from support.daemons.daemon_fixtures import needs_root

from .conftest import AUTHORITY, LIMITS, LISTED, Guests

pytestmark = needs_root

ADAPTER = """
import httpx
from assayd_adapter import register_adapter


@register_adapter
class OpenMeteo:
    def fetch_raw(self, url):
        with httpx.Client(verify="ca.pem", timeout=20) as client:
            return client.get(url).text

    def transform(self, raw):
        return {"path": raw}

    def get_schema(self):
        return {"type": "object"}
"""
TESTS = """
from adapter import OpenMeteo


def test_fetch():
    adapter = OpenMeteo()
    assert adapter.transform(adapter.fetch_raw("URL")) == {"path": "/now"}
"""


def policy() -> ExecutionPolicy:
    return replace(load_policies([get_shared_data_path("policies")]).get("integration_test"), network=LISTED)


async def tried(guests: Guests, url: str) -> tuple[str, dict[str, str | None], RunResult]:
    """Run a module whose only test requests a URL; return verdict, suggestions by rule, and the run."""
    files = {"adapter.py": ADAPTER, "test_adapter.py": TESTS.replace("URL", url)}
    submitted = ModulePayload(manifest=MANIFEST, files={**files, "ca.pem": AUTHORITY["ca.pem"].decode()})
    assert [f for stage in validator.stages for f in stage.check(submitted, policy())] == []
    prepared = validator.prepare(submitted)
    result = await guests.of(validator.plan(prepared, policy(), derive_attempt_limits(policy(), LIMITS)))
    ran = JudgedRun(result=result, judgement=validator.judge(prepared, policy(), result))
    stages = merge_stages((), validator.runtime_stages, ran)
    found = {finding.rule: finding.suggestion for stage in stages for finding in stage.findings}
    return decide_verdict(stages, ran).value, found, result


async def test_module_whose_tests_ask_a_listed_host_is_validated(guests: Guests) -> None:
    verdict, found, result = await tried(guests, "https://api.example.com/now")

    assert (verdict, {rule.partition(".")[0] for rule in found}) == ("validated", {"quality"})
    contract, tests = result.units
    assert contract.network == ()
    assert [(event.host, event.allowed) for event in tests.network] == [("api.example.com", True)]


async def test_module_whose_tests_ask_another_host_fails_with_the_rule(guests: Guests) -> None:
    verdict, found, result = await tried(guests, "https://evil.example/now")

    assert (verdict, "network.allowlist" in str(found) or "host" in str(found["policy.network"])) == (
        "failed",
        True,
    )
    assert [(event.host, event.rule) for event in result.units[1].network] == [
        ("evil.example", "network.not_listed")
    ]
