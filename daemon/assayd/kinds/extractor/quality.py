"""Checks the quality of an extractor's results. Source: docs/kinds/extractor.md.

every result is {}                quality.all_empty
one of several is {}              quality.some_empty  (a warning)
{"Q1": 1, "start date": 2}        quality.key         (a warning on 'start date')
{"when": datetime(...)}           quality.not_json    (a warning)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from assayd.findings.call_unit import JudgedUnit
from assayd.findings.runs import describe_case_group
from assayd.model.finding import Finding, Layer, Rule, Severity
from assayd.model.text_limits import shorten_text

RULES = (
    Rule(id="quality.all_empty", title="All results are empty"),
    Rule(id="quality.some_empty", title="Some results are empty", severity=Severity.WARNING),
    Rule(id="quality.key", title="A field name isn't an identifier", severity=Severity.WARNING),
    Rule(id="quality.not_json", title="A value isn't plain JSON", severity=Severity.WARNING),
)
_MAX_EACH = 20
_MATCHES_FROM_START = re.compile(r"\.match\(")


def judge_quality(tries: Sequence[JudgedUnit], text: str = "") -> Iterator[Finding]:
    """Yield findings about empty results, invalid field names, and values without a JSON form.

    Args:
        tries: the calls that returned a dict.
        text: the extractor's code.
    """
    empty = [one.case.name for one in tries if one.case.result == {}]
    if len(empty) == len(tries):
        message = f"extract() returned an empty dict for all {len(tries)} paths."
        hint = "Check the pattern against the sample paths: it matches none of them."
        if _MATCHES_FROM_START.search(text) and any(one.case.name.startswith("/") for one in tries):
            hint += (
                " match() starts at the first character, a slash: start the pattern with it, or use search()."
            )
        yield _quality_finding("all_empty", Severity.ERROR, message, hint, context=describe_case_group(empty))
        return
    if empty:
        message = f"{len(empty)} of {len(tries)} paths returned an empty dict."
        yield _quality_finding(
            "some_empty",
            Severity.WARNING,
            message,
            "Check that these paths have no fields.",
            context=describe_case_group(empty),
        )
    for key, paths in list(_find_invalid_keys(tries).items())[:_MAX_EACH]:
        message = f"The field name {shorten_text(key, 60)!r} isn't an identifier."
        yield _quality_finding(
            "key", Severity.WARNING, message, "Use letters, digits and _ only.", describe_case_group(paths)
        )
    notes: dict[tuple[str, str], list[str]] = {}
    for one in tries:
        for note in one.value.notes if one.value else ():
            notes.setdefault((note.path, note.problem), []).append(one.case.name)
    for (place, problem), paths in list(notes.items())[:_MAX_EACH]:
        message = f"The value at {shorten_text(place, 60)} isn't plain JSON: {shorten_text(problem, 200)}."
        hint = "Return strings, numbers, lists and dicts."
        yield _quality_finding(
            "not_json", _choose_severity(problem), message, hint, describe_case_group(paths)
        )


def _find_invalid_keys(tries: Sequence[JudgedUnit]) -> dict[str, list[str]]:
    """Return the invalid field names, each with the paths whose results contain it."""
    found: dict[str, list[str]] = {}
    for one in tries:
        for key in one.case.result if isinstance(one.case.result, dict) else ():
            if not key.isidentifier():
                found.setdefault(key, []).append(one.case.name)
    return found


def _choose_severity(problem: str) -> Severity:
    """Return the severity of a problem; a tuple becomes a JSON array without loss."""
    return Severity.INFO if problem.startswith("a tuple") else Severity.WARNING


def _quality_finding(
    name: str, severity: Severity, message: str, hint: str, context: str | None = None
) -> Finding:
    return Finding(
        rule=f"quality.{name}",
        category="quality",
        message=message,
        severity=severity,
        layer=Layer.RUNTIME,
        suggestion=hint,
        context=context,
    )
