"""What a profile says of one line of code, without an attempt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from assayd.attempts.policy_explanation import Snippet, explain
from assayd.errors import RequestError
from assayd.kinds import registry
from assayd.package_data import share
from assayd.policies import PolicySet, load_policies
from assayd_pipeline.worker import enter

KINDS = registry.load(())


class HereAnalyst:
    """Reads in this process."""

    async def stages(self, kind: Any, payload: Any, policy: Any, *, flow: tuple[int, str]) -> Any:
        return [SimpleNamespace(findings=tuple(stage.check(payload, policy))) for stage in kind.stages]


@pytest.fixture(scope="module", autouse=True)
def readers() -> None:
    """Let this process read bash and SQL, as an analysis worker does."""
    enter()


@pytest.fixture(scope="module")
def shipped() -> PolicySet:
    return load_policies([share("policies")])


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
