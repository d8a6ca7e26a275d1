"""Reports errors that bash or a tool printed although the step passed.

    scripts/01_a.sh: line 2: [: amount: integer expression expected     step.ignored_error at line 2
    grep: *.csv: No such file or directory                              at the only line that calls grep

A profile sets the severity of these findings (`commands.ignored_errors`). With the value `uncaught`, the
line of the step must show that `set -e` with `pipefail` would have ended the step. Uncertain cases are
warnings: conditions, lists with `||` or `&&`, substitutions inside arguments, functions, and unknown lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from assayd.findings.source_text import get_snippet
from assayd.model.finding import Finding, Layer, Rule, Severity
from assayd.model.policy import IgnoredErrors
from assayd.model.text_limits import shorten_text
from assayd_pipeline.errors import ErrorClass, ErrorSource, classify_error
from assayd_pipeline.judging import StepText, explain_message, is_known

RULE = Rule(
    id="step.ignored_error",
    profile_key="commands.ignored_errors",
    title="The step ignored an error",
    severity=Severity.WARNING,
    help="Bad: n=$(grep -c x tmp/nothere). Good: set -euo pipefail at the top of the step.",
)
_MAX_LINES = 500
_MAX_READ = 60
"""Maximum distinct lines of a step to look up, because a submitter controls them."""
_MAX_FINDINGS = 5
MOST_IN_RUN = 20
"""Maximum ignored errors of a run to explain."""
_SCRIPT = re.compile(r"scripts/[^:]*: line \d{1,6}: ")
_SOURCE = re.compile(r"scripts/[^:]*: line \d{1,6}: |([a-z][a-z0-9]{0,20}): ")
_HARMLESS = re.compile(r"\bwarning: |[Bb]roken pipe|write error|[Tt]ry '|\busage: ")
_HANDLED = re.compile(
    r"\|\||&&|&\s*$|^\s*(?:if|elif|while|until|!|local|export|declare|readonly|typeset|case)\b|^\s*!|[<>]\(|`"
)
_ANYWHERE = re.compile(
    r"^[ \t]*+(?:\}|\)|done|fi|esac)[^#\n]*(?:\|\||&&|&\s*$)|\bset \+e\b|\bset \+o errexit\b"
    r"|\btrap\b[^\n]{0,200}\bERR\b",
    re.MULTILINE,
)
_FUNCTION = re.compile(r"^[ \t]*+(?:function\s+[\w-]+|[\w-]++\s*+\(\s*+\))", re.MULTILINE)
_ASSIGNMENT = re.compile(r"\s*\w+=\"?\$\(")


def iter_ignored_errors(step: StepText, stderr: str, level: IgnoredErrors | None) -> Iterator[Finding]:
    """Yield a finding for each error message that a bash step printed although it passed."""
    level = level or IgnoredErrors.WARNING
    if step.program is not ErrorSource.BASH or level is IgnoredErrors.OFF or not stderr:
        return
    lines = dict.fromkeys(line.strip() for line in stderr.splitlines()[:_MAX_LINES])
    printed = (said for said in lines if _is_program_output(said, step.content))
    errors = (said for said in islice(printed, _MAX_READ) if _is_error_message(said))
    for said in islice(errors, _MAX_FINDINGS):
        yield _ignored_error_finding(step, said, level)


def _is_program_output(said: str, content: str) -> bool:
    """Return whether bash or a called program probably printed a line."""
    source = _SOURCE.match(said)
    if source is None or _HARMLESS.search(said):
        return False
    return source[1] is None or re.search(rf"\b{source[1]}\b", content) is not None


def _is_error_message(said: str) -> bool:
    return (
        is_known(said) or classify_error(said, program=ErrorSource.BASH).error_class is not ErrorClass.UNKNOWN
    )


def _ignored_error_finding(step: StepText, said: str, level: IgnoredErrors) -> Finding:
    told = explain_message(said, step.content)
    uncaught = (
        level is IgnoredErrors.UNCAUGHT and told.line is not None and _would_end_step(step.content, told.line)
    )
    is_error = level is IgnoredErrors.ERROR or uncaught
    hint = told.hint or classify_error(said, program=ErrorSource.BASH).advice
    shown = get_snippet(step.content, told.line)
    return Finding(
        rule=RULE.id,
        category=classify_error(said, program=ErrorSource.BASH).error_class,
        message=shorten_text(f"{step.label}: The step ignored an error: {_SCRIPT.sub('', said)}."),
        severity=Severity.ERROR if is_error else Severity.WARNING,
        layer=Layer.RUNTIME,
        file=step.name,
        line=told.line if shown is not None else None,
        snippet=shown,
        suggestion=hint,
        edit=told.edit,
        context=step.label,
    )


def _would_end_step(content: str, line: int) -> bool:
    """Return whether `set -e` with `pipefail` would certainly have ended a step at a line."""
    lines = content.split("\n")
    first = last = line - 1
    while first > 0 and re.search(r"(?:\\|\||&&)\s*$", lines[first - 1]):
        first -= 1
    while last < len(lines) - 1 and re.search(r"(?:\\|\||&&)\s*$", lines[last]):
        last += 1
    whole = "\n".join(lines[first : last + 1])
    if any(_HANDLED.search(each) for each in lines[first : last + 1]) or _ANYWHERE.search(content):
        return False
    if "$(" in whole and not _ASSIGNMENT.match(whole):
        return False
    return not (_FUNCTION.search(content) and lines[first][:1] in {" ", "\t"})
