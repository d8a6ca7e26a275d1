"""A hostile program as part of a module: its tests, or the end of an adapter whose honest test fails.

The static stages are left out of what runs, so that the defences of the run are met; what they would have
found is among the facts.
"""

from __future__ import annotations

from functools import cache

from assayd.analysis.worker import run_stages
from assayd.kinds.module.generating import ADAPTER, MANIFEST
from assayd.kinds.module.validator import ModulePayload, validator
from assayd.model.merge import JudgedRun, decide_verdict, merge_stages
from assayd.model.policy import ExecutionPolicy
from assayd.model.run import Limits, RunResult, RunSpec, derive_attempt_limits
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies

HONEST = """
from adapter import OpenMeteo


def test_transform():
    raw = {"current_weather": {"temperature": 21.5, "windspeed": 8.0}}
    assert OpenMeteo().transform(raw) == {"celsius": "not this"}
"""
CAPS = Limits(timeout_s=0, unit_timeout_s=0, memory_bytes=0, max_processes=0)


def spec(source: str, role: str) -> RunSpec:
    """Return the run's spec."""
    prepared = validator.prepare(_payload(source, role))
    return validator.plan(prepared, _policy(), derive_attempt_limits(_policy(), CAPS))


def facts(source: str, role: str, result: RunResult) -> dict[str, str]:
    """Return the verdict, the rules of the run, and the rules of the static stages."""
    payload = _payload(source, role)
    judgement = validator.judge(validator.prepare(payload), _policy(), result)
    ran = JudgedRun(result=result, judgement=judgement)
    stages = merge_stages((), validator.runtime_stages, ran)
    static = [f.rule for stage in run_stages(validator, payload, _policy()) for f in stage.findings]
    return {
        "verdict": decide_verdict(stages, ran).value,
        "rules": " ".join(finding.rule for stage in stages for finding in stage.findings),
        "static": " ".join(static),
    }


def _payload(source: str, role: str) -> ModulePayload:
    texts = {"adapter": (f"{ADAPTER}\n\n{source}", HONEST), "tests": (ADAPTER, source)}
    adapter, tests = texts[role]
    return ModulePayload(manifest=MANIFEST, files={"adapter.py": adapter, "test_adapter.py": tests})


@cache
def _policy() -> ExecutionPolicy:
    return load_policies([get_shared_data_path("policies")]).get("module_validation")
