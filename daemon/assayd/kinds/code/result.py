"""Judges a code node's `result`: it must exist, be complete, and have the declared type.

    result: int, and never assigned            result.missing
    result: list = {}                          result.type
    result: list = list(range(10**7))          result.cut
    result: int = 10**1000                     result.cut
    result: object = object()                  result.not_plain     (a warning)

Source: docs/kinds/code.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from assayd.findings.source_text import line_at, snippet
from assayd.guest_results.record import Value
from assayd.kinds.code import types as code_types
from assayd.model.finding import Finding, Layer, Rule, Severity
from assayd.model.text_limits import shorten

_NOTES_SHOWN = 3
_IN_PLACE = re.compile(
    r"\.(append|clear|discard|extend|insert|remove|reverse|sort|update)\([^()]*\)\s*(?:#.*)?$"
)
"""A call of a mutating method at the end of a line."""
_PLAIN = "Return plain values: numbers, strings, lists, dicts, sets, tuples, bytes, Decimal, dates and times."
_PLAIN_FORMS = {
    **dict.fromkeys(
        (
            "array", "deque", "dict_items", "dict_keys", "dict_values", "enumerate", "filter", "generator",
            "islice", "map", "range", "reversed", "zip",
        ),
        "Convert it to a list: result: list = list(…)",
    ),
    **dict.fromkeys(("function", "method", "builtin_function_or_method"), "Call it: …()"),
    "coroutine": "Run it: result: … = asyncio.run(…)",
    "module": "Return a value from the module, not the module itself.",
}  # fmt: skip
"""Remedies for values without a JSON form, by the name of their type."""

RULES = (
    Rule(
        id="result.missing",
        title="The code assigned no result",
        help="Bad: if data: result: int = 1. Good: a value on every code path.",
    ),
    Rule(
        id="result.type",
        title="The result has another type than declared",
        help="Bad: result: list = {}. Good: result: dict = {}.",
    ),
    Rule(
        id="result.cut",
        title="The result is too large",
        help="Good: sums, samples and counts; large data as few long strings.",
    ),
    Rule(
        id="result.not_plain",
        title="The result can't be returned unchanged",
        severity=Severity.WARNING,
        help="Bad: result: object = Point(1, 2). Good: result: dict = {'x': 1, 'y': 2}.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The declaration of the result: the allowed types, and the annotation as written in the source."""

    types: Collection[str]
    annotation: str
    line: int | None
    text: str


def check_result(value: Value | None, wanted: Wanted) -> Iterator[Finding]:
    """Yield findings about the value of `result`, or about its absence if the value is None."""
    if value is None:
        message = "The code ended without a value in 'result'."
        remedy = f"Assign it on every code path: result: {wanted.annotation} = …"
        yield _finding("result.missing", message, remedy, wanted)
        return
    actual = code_types.type_of(value.value)
    unseen = actual == code_types.ANYTHING and not value.complete
    if not unseen and not code_types.fits(actual, wanted.types):
        name = shorten(value.type_name, 60) if actual == code_types.ANYTHING else actual
        message = f"The result is declared as {wanted.annotation}, but has the type {name}."
        yield _finding("result.type", message, _suggest_fix(actual, name, wanted), wanted)
    if not value.complete:
        message = f"The result is too large: {_format_notes(value)}"
        remedy = "Return less: aggregate, filter, or join values; return numbers of 900 digits as strings."
        yield _finding("result.cut", message, remedy, wanted)
    elif value.notes:
        message = f"The result can't be returned unchanged: {_format_notes(value)}"
        yield _finding("result.not_plain", message, _PLAIN, wanted, Severity.WARNING)


def _suggest_fix(actual: str, name: str, wanted: Wanted) -> str:
    if actual == "None" and (found := _IN_PLACE.search(line_at(wanted.text, wanted.line) or "")):
        other = {"sort": "sorted(…)", "reverse": "list(reversed(…))"}.get(found[1])
        instead = f", or use {other}" if other else ""
        return (
            f".{found[1]}() changes the value in place and returns None. Call it on a separate line{instead}."
        )
    if actual == "None":
        optional = code_types.written({*wanted.types, "None"})
        return f"Assign a value on every code path, or declare: result: {optional}"
    if actual == code_types.ANYTHING:
        return _PLAIN_FORMS.get(name, _PLAIN)
    way = code_types.conversion(actual, wanted.types, "…")
    by_code = f" Or convert it: result: {wanted.annotation} = {way}" if way else ""
    return f"Declare the actual type: result: {name}.{by_code}"


def _format_notes(value: Value) -> str:
    shown = "; ".join(f"{note.path}: {note.problem}" for note in value.notes[:_NOTES_SHOWN])
    more = len(value.notes) - _NOTES_SHOWN
    return shorten(shown, 600) + (f"; and {more} more" if more > 0 else "")


def _finding(
    rule: str, message: str, suggestion: str, wanted: Wanted, severity: Severity = Severity.ERROR
) -> Finding:
    return Finding(
        rule=rule,
        category="result",
        message=message,
        severity=severity,
        layer=Layer.RUNTIME,
        line=wanted.line,
        snippet=snippet(wanted.text, wanted.line),
        suggestion=suggestion,
    )
