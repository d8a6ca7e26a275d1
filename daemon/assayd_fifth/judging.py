"""Judges the runs of a program by the way they end, and the runs of cases also by their output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from assayd.findings.expected import judge_expected_output, merge_findings
from assayd.findings.runs import unfinished_findings
from assayd.findings.source_text import get_snippet
from assayd.findings.units import JudgedUnit, judge_exec
from assayd.model.finding import Finding, Layer, has_errors
from assayd.model.report import CaseStatus, Judgement
from assayd.model.run import Cause, RunResult, UnitResult
from assayd.model.text_limits import shorten_text
from assayd_fifth.language import Language, get_language
from assayd_fifth.payload import FifthCase, FifthPayload
from assayd_fifth.rules import FifthRule

PROGRAM_FILE = "assayd/program.fs"

_SAID = re.compile(
    r"^(?P<file>[^\n:]{1,300}):(?P<line>\d{1,7}): (?P<said>[^\n]*)\n(?P<source>[^\n]*)", re.MULTILINE
)
_OPENED, _CLOSED = ">>>", "<<<"
_NOTES = {
    "library-unavailable": "fifth.library_unavailable",
    "no-programs": "fifth.needs_programs",
}
_NOTE = re.compile(r"^assayd: (?P<what>[a-z-]+) (?P<said>[^\n]*)$", re.MULTILINE)


def build_error_finding(stderr: str, code: str, about: Language) -> Finding | None:
    """Return the finding for the error that ended the program; None if gforth printed no error."""
    errors = list(_SAID.finditer(stderr))
    if not errors:
        return None
    error = errors[-1]
    said = error["said"].strip()
    rule = next(rule for rule in about.rules.run.values() if any(p.fullmatch(said) for p in rule.matches))
    token = _find_token(error["source"])
    if token.lower() == "throw" and rule.id == "fifth.undefined_word":
        rule = about.rules.run["fifth.uncaught_throw"]  # `-13 throw` prints the same as an undefined word
    line = int(error["line"]) if error["file"].endswith(PROGRAM_FILE) else None
    found = _run_finding(rule, said=said or "aborted", token=token)
    return found if line is None else _add_place(found, line, code)


def _find_token(source: str) -> str:
    """Return the token that gforth marks as ``>>>token<<<`` in a line; empty if it marks nothing."""
    _, opened, rest = source.partition(_OPENED)
    token, closed, _ = rest.partition(_CLOSED)
    return token if opened and closed else ""


def iter_prelude_findings(stderr: str, about: Language) -> Iterator[Finding]:
    """Return the findings for the messages that the prelude printed."""
    for note in _NOTE.finditer(stderr):
        if note["what"] in _NOTES:
            yield _run_finding(about.rules.run[_NOTES[note["what"]]], said=note["said"], token="")


def _run_finding(rule: FifthRule, *, said: str, token: str) -> Finding:
    return Finding(
        rule=rule.id,
        category=rule.type,
        message=shorten_text(
            rule.message.format(said=shorten_text(said, 200), token=shorten_text(token, 100)), 400
        ),
        severity=rule.severity,
        layer=Layer.RUNTIME,
        suggestion=rule.suggestion,
    )


def _add_place(found: Finding, line: int, code: str) -> Finding:
    """Add the location to a finding, unless the program doesn't have this line."""
    text = get_snippet(code, line)
    return found if text is None else replace(found, line=line, snippet=text)


_LOOP = re.compile(r"(?<!\S)(?:begin|\??do|recurse)(?!\S)", re.IGNORECASE)


def _place_at_loop(found: Finding, code: str) -> Finding:
    """Move the finding about a limit to the only line that contains a loop."""
    lines = [number for number, line in enumerate(code.split("\n"), 1) if _LOOP.search(line)]
    if len(lines) != 1 or not found.is_error:
        return found
    [line] = lines
    hint = f"Check the loop in line {line}: each turn must come closer to its end. `10 0 do` counts up to 9."
    return replace(found, line=line, snippet=get_snippet(code, line), suggestion=hint)


GFORTH = "/usr/bin/gforth"
UNIT = "program"


def iter_runs(submitted: FifthPayload) -> Iterator[tuple[str, str, FifthCase | None]]:
    """Return the runs, each with its name, its standard input, and its case, if any."""
    for case in submitted.cases:
        yield case.name, case.stdin, case
    if submitted.execute and not submitted.cases:
        yield UNIT, "", None


def judge_runs(submitted: FifthPayload, result: RunResult) -> Judgement:
    """Judge runs by their exit, and cases by their output; gforth's messages only affect the wording."""
    tries = []
    for index, (name, _, case) in enumerate(iter_runs(submitted)):
        unit = result.units[index] if index < len(result.units) else None
        unit = unit if unit is not None and unit.name == name else None
        tried = _judge_run(name, unit, submitted.code)
        if case is not None and unit is not None:
            before = tried.findings
            tried = judge_expected_output(tried, case, case.expected, unit.stdout)
            if tried.findings is not before:
                tried = replace(tried, findings=(*before, *tried.findings))
        tries.append(tried)
    found = merge_findings(tries)
    if not has_errors(found) and any(one.case.status is not CaseStatus.PASSED for one in tries):
        found = (*found, *unfinished_findings(result, "The program"))
    return Judgement(stage_findings={"sandbox": found}, cases=tuple(one.case for one in tries))


def _judge_run(name: str, unit: UnitResult | None, code: str) -> JudgedUnit:
    tried = judge_exec(name, unit, program=GFORTH)
    if unit is None:
        return tried
    stderr = unit.stderr.text()
    if tried.case.status is CaseStatus.PASSED:
        return replace(tried, findings=tuple(iter_prelude_findings(stderr, get_language())))
    if unit.outcome.cause in {Cause.TIMEOUT, Cause.OUTPUT_LIMIT}:
        return replace(tried, findings=tuple(_place_at_loop(one, code) for one in tried.findings))
    said = build_error_finding(stderr, code, get_language())
    if said is None or unit.outcome.cause is not Cause.EXITED_NONZERO or unit.results:
        return tried
    case = replace(tried.case, error_type=said.rule, message=said.message, line=said.line)
    return JudgedUnit(case=case, findings=(said,))
