"""Errors that a passing step printed."""

from __future__ import annotations

import pytest

from assayd.model.finding import Severity
from assayd.model.policy import IgnoredErrorSeverity
from assayd_pipeline.errors import ErrorSource
from assayd_pipeline.judging import StepText
from assayd_pipeline.worth import iter_ignored_errors

MISSING = "grep: data/x: No such file or directory\n"


def severities(
    content: str, stderr: str, level: IgnoredErrorSeverity | None = IgnoredErrorSeverity.UNCAUGHT
) -> list[Severity]:
    """Return the severities of a passing step's findings."""
    step = StepText(number=1, name="a", program=ErrorSource.BASH, content=content)
    return [one.severity for one in iter_ignored_errors(step, stderr, level)]


@pytest.mark.parametrize(
    "content", ["grep a data/x\necho", "n=$(grep -c a data/x)\necho", "grep a data/x | wc -l"]
)
def test_error_that_would_have_ended_the_step_is_an_error(content: str) -> None:
    assert severities(content, MISSING) == [Severity.ERROR]


@pytest.mark.parametrize(
    "content",
    [
        "grep a data/x || echo",
        "if grep a data/x; then ls; fi",
        'echo "$(grep a data/x)"',
        "local n=$(grep -c a data/x)",
        "f() {\n  grep a data/x\n}\nif f; then ls; fi",
        "{\n  grep a data/x\n} || true",
        "set +e\ngrep a data/x",
        "grep a data/x\ngrep b data/x",
        "grep a data/x |\n  sort || true",
    ],
)
def test_error_that_the_step_may_handle_is_a_warning(content: str) -> None:
    assert severities(content, MISSING) == [Severity.WARNING]


def test_profile_decides() -> None:
    assert severities("grep a data/x || echo", MISSING, IgnoredErrorSeverity.ERROR) == [Severity.ERROR]
    assert severities("grep a data/x", MISSING, IgnoredErrorSeverity.WARNING) == [Severity.WARNING]
    assert severities("grep a data/x", MISSING, None) == [Severity.WARNING]
    assert severities("grep a data/x", MISSING, IgnoredErrorSeverity.OFF) == []


@pytest.mark.parametrize(
    "stderr",
    [
        "3 rows\n",
        "done: all rows\n",
        "awk: cmd. line:1: warning: escape\n",
        "sort: write failed: Broken pipe\n",
    ],
)
def test_other_output_is_not_an_error(stderr: str) -> None:
    assert severities("awk 1 x\nsort x\n", stderr) == []


def test_message_of_bash_is_at_its_line() -> None:
    step = StepText(number=1, name="a", program=ErrorSource.BASH, content='x=1\n[ "$x" -gt a ]\nls')
    said = "scripts/01_a.sh: line 2: [: a: integer expression expected\n"
    [finding] = iter_ignored_errors(step, said, None)
    assert (finding.rule, finding.line, finding.file) == ("step.ignored_error", 2, "a")
