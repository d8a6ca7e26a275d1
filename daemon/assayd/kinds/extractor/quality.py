"""Checks the quality of an extractor's results. Source: docs/kinds/extractor.md.

every result is {}                quality.all_empty
one of several is {}              quality.some_empty  (a warning)
{"Q1": 1, "start date": 2}        quality.key         (a warning on 'start date')
{"when": datetime(...)}           quality.not_json    (a warning)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from assayd.findings.call_unit import Tried
from assayd.findings.runs import among
from assayd.model.finding import Finding, Layer, Rule, Severity
from assayd.model.text_limits import shorten

RULES = (
    Rule(id="quality.all_empty", title="All results are empty"),
    Rule(id="quality.some_empty", title="Some results are empty", severity=Severity.WARNING),
    Rule(id="quality.key", title="A field name isn't an identifier", severity=Severity.WARNING),
    Rule(id="quality.not_json", title="A value isn't plain JSON", severity=Severity.WARNING),
)
_MAX_EACH = 20
_MATCHES_FROM_START = re.compile(r"\.match\(")


def judge_quality(tries: Sequence[Tried], text: str = "") -> Iterator[Finding]:
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
        yield _finding("all_empty", Severity.ERROR, message, hint, context=among(empty))
        return
    if empty:
        message = f"{len(empty)} of {len(tries)} paths returned an empty dict."
        yield _finding(
            "some_empty",
            Severity.WARNING,
            message,
            "Check that these paths have no fields.",
            context=among(empty),
        )
    for key, paths in list(_find_invalid_keys(tries).items())[:_MAX_EACH]:
        message = f"The field name {shorten(key, 60)!r} isn't an identifier."
        yield _finding("key", Severity.WARNING, message, "Use letters, digits and _ only.", among(paths))
    notes: dict[tuple[str, str], list[str]] = {}
    for one in tries:
        for note in one.value.notes if one.value else ():
            notes.setdefault((note.path, note.problem), []).append(one.case.name)
    for (place, problem), paths in list(notes.items())[:_MAX_EACH]:
        message = f"The value at {shorten(place, 60)} isn't plain JSON: {shorten(problem, 200)}."
        hint = "Return strings, numbers, lists and dicts."
        yield _finding("not_json", _problem_severity(problem), message, hint, among(paths))


def _find_invalid_keys(tries: Sequence[Tried]) -> dict[str, list[str]]:
    """Return the invalid field names, each with the paths whose results contain it."""
    found: dict[str, list[str]] = {}
    for one in tries:
        for key in one.case.result if isinstance(one.case.result, dict) else ():
            if not key.isidentifier():
                found.setdefault(key, []).append(one.case.name)
    return found


def _problem_severity(problem: str) -> Severity:
    """Return the severity of a problem; a tuple becomes a JSON array without loss."""
    return Severity.INFO if problem.startswith("a tuple") else Severity.WARNING


def _finding(name: str, severity: Severity, message: str, hint: str, context: str | None = None) -> Finding:
    return Finding(
        rule=f"quality.{name}",
        category="quality",
        message=message,
        severity=severity,
        layer=Layer.RUNTIME,
        suggestion=hint,
        context=context,
    )
