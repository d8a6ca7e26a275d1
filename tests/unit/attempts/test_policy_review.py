"""Additions to a profile: which are suggested and withheld, and the resulting file."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assayd.attempts.policy_review import PolicySuggestion, Snippet, explain
from assayd.errors import RequestError
from assayd.kinds import registry
from assayd.model.attempt import Attempt
from assayd.model.finding import Finding
from assayd.model.policy import ExecutionPolicy, ImportPolicy
from assayd.model.submission import Peer
from assayd.package_data import get_shared_data_path
from assayd.policies import PolicySet, load_policies
from assayd_pipeline.worker import install_readers

AT = datetime(2026, 11, 1, tzinfo=UTC)
ATTEMPT = Attempt(
    id="01JTC8ZK5V0000000000000001",
    kind="extractor",
    policy="extractor",
    input_digest="0" * 64,
    created_at=AT,
    peer=Peer(uid=1000, gid=1000, pid=1),
)


@pytest.fixture(scope="module")
def shipped() -> PolicySet:
    return load_policies([get_shared_data_path("policies")])


def refused(rule: str, key: str, subject: str | None) -> Finding:
    return Finding(rule=rule, category="x", message="m", profile_key=key, subject=subject)


def suggested(policy: ExecutionPolicy, *findings: Finding) -> PolicySuggestion:
    suggestion = PolicySuggestion(policy=policy.name)
    suggestion.note(ATTEMPT, findings, policy)
    return suggestion


def test_addition_counts_attempts_with_first_and_last_time(shipped: PolicySet) -> None:
    policy = shipped.get("extractor")
    suggestion = PolicySuggestion(policy="extractor")
    one = refused("import.not_allowed", "imports.allowed", "colorsys")
    suggestion.note(ATTEMPT, [one, one], policy)
    later = replace(ATTEMPT, created_at=AT + timedelta(days=2))
    suggestion.note(later, [one, refused("import.not_allowed", "imports.allowed", "cmath")], policy)

    addition = suggestion.additions["imports.allowed", "colorsys"]
    assert (addition.count, addition.enough) == (2, 1)
    assert (addition.first_at, addition.last_at) == (AT, later.created_at)
    assert (suggestion.seen, suggestion.helped) == (2, 2)


def test_file_with_every_kind_of_addition_is_a_profile_that_allows_them(
    shipped: PolicySet, tmp_path: Path
) -> None:
    policy = shipped.get("extractor")
    found = suggested(
        policy,
        refused("import.not_allowed", "imports.allowed", "colorsys"),
        refused("attribute.not_allowed", "imports.names", "json.load"),
        refused("command.not_allowed", "commands.allowed", "tput"),
        refused("sql.drop", "sql.rules", None),
        refused("policy.network", "network.hosts", "api.example.org:443"),
    )
    assert tomllib.loads(found.toml())["extends"] == "extractor"
    file = tmp_path / "more.toml"
    file.write_text(found.toml())
    more = load_policies([get_shared_data_path("policies"), tmp_path]).get("more")
    assert more.imports.allows("colorsys")
    assert "load" in more.imports.names["json"]
    assert "tput" in more.commands.allowed
    assert more.sql.admits("sql.drop")
    assert more.network.hosts == {"api.example.org"}


@pytest.mark.parametrize(
    ("rule", "key", "subject"),
    [
        ("import.not_allowed", "imports.allowed", "subprocess"),
        ("import.not_allowed", "imports.allowed", "ctypes.util"),
        ("attribute.not_allowed", "imports.names", "os.system"),
        ("attribute.dunder", "enforcement", None),
        ("forbidden.name", "adapter.forbidden", "os.fork"),
        ("command.blocked", "commands.blocked", "rm"),
        ("builtin.not_allowed", "commands.builtins", "eval"),
        ("option.refused", "commands.options", None),
        ("variable.protected", "commands.protected", None),
        ("policy.network", "network.hosts", "localhost:443"),
        ("policy.network", "network.hosts", "10.0.0.1:443"),
    ],
)
def test_name_that_guards_isolation_is_withheld_with_a_reason(
    shipped: PolicySet, rule: str, key: str, subject: str | None
) -> None:
    found = suggested(shipped.get("extractor"), refused(rule, key, subject))
    assert found.additions == {}
    assert [bool(one.reason) for one in found.withheld.values()] == [True]
    assert found.helped == 0


@pytest.mark.parametrize("name", ['x"]\n[resources', "a b", "-rf", "../x", "", "x" * 3000 + "/"])
def test_text_of_submitted_code_never_gets_into_the_file_unless_it_is_a_name(
    shipped: PolicySet, name: str
) -> None:
    for key in ("imports.allowed", "imports.names", "commands.allowed", "network.hosts"):
        found = suggested(shipped.get("extractor"), refused("r", key, name))
        assert found.toml() == 'extends = "extractor"\n'


def test_denied_module_is_withheld_and_an_allowed_one_is_not_mentioned() -> None:
    imports = ImportPolicy(allowed=frozenset({"json"}), denied=frozenset({"hashlib"}))
    policy = ExecutionPolicy(name="p", imports=imports)
    findings = [refused("import.not_allowed", "imports.allowed", name) for name in ("json", "hashlib")]
    found = suggested(policy, *findings)
    assert list(found.withheld) == [("imports.allowed", "hashlib")]
    assert found.additions == {}


KINDS = registry.load_validators(())


class HereAnalyst:
    """An analyst that works in this process."""

    async def stages(self, kind: Any, payload: Any, policy: Any, *, flow: tuple[int, str]) -> Any:
        return [SimpleNamespace(findings=tuple(stage.check(payload, policy))) for stage in kind.stages]


@pytest.fixture(scope="module", autouse=True)
def readers() -> None:
    """Let this process parse bash and SQL like an analysis worker."""
    install_readers()


async def explained(shipped: PolicySet, profile: str, language: str, text: str, **more: Any) -> Any:
    analyst: Any = HereAnalyst()
    snippet = Snippet(language=language, text=text)
    given = {"kind": None, "uid": 1000, **more}
    return await explain(snippet, shipped.get(profile), KINDS, analyst, **given)


@pytest.mark.parametrize(
    ("profile", "language", "text", "kind", "rule"),
    [
        ("extractor", "python", "import socket", "extractor", "import.not_allowed"),
        ("extractor", "python", "x = 1\nopen('/etc/passwd')", "extractor", "builtin.not_allowed"),
        ("extractor", "python", "''.__class__.__base__", "extractor", "attribute.dunder"),
        ("module_validation", "python", "import subprocess", "module", "import.not_allowed"),
        ("default", "python", "import subprocess", "module", "import.not_allowed"),
        ("pipeline", "bash", "rm x", "pipeline", "command.blocked"),
        ("pipeline", "bash", "cat ../secret", "pipeline", "path.outside"),
        ("pipeline", "sql", "DROP TABLE t", "pipeline", "sql.drop"),
    ],
)
async def test_rule_that_refuses_a_line_is_named_with_the_line(
    shipped: PolicySet, profile: str, language: str, text: str, kind: str, rule: str
) -> None:
    name, found = await explained(shipped, profile, language, text)
    assert name == kind
    refusals = [each for each in found if each.is_error]
    assert rule in {each.rule for each in refusals}
    assert not any(each.message.startswith("Step") for each in refusals)
    assert {each.line for each in refusals} <= {text.count("\n") + 1, None}


@pytest.mark.parametrize(
    ("profile", "language", "text"),
    [
        ("extractor", "python", "import re"),
        ("code", "python", "import os"),
        ("pipeline", "bash", "echo one | sort"),
        ("pipeline", "sql", "SELECT 1"),
    ],
)
async def test_line_that_is_allowed_has_no_error(
    shipped: PolicySet, profile: str, language: str, text: str
) -> None:
    _, found = await explained(shipped, profile, language, text)
    assert [each for each in found if each.is_error] == []


async def test_kind_that_takes_no_such_code_is_refused(shipped: PolicySet) -> None:
    with pytest.raises(RequestError, match="takes no sql code"):
        await explained(shipped, "extractor", "sql", "SELECT 1", kind="extractor")
    with pytest.raises(RequestError, match="unknown kind 'nothing'"):
        await explained(shipped, "extractor", "python", "x = 1", kind="nothing")
