"""Compares the result of code with a case's expected result, and describes the difference.

Expected fields must be equal at any depth; additional fields are allowed. Lists are compared element by
element. Since the guest controls the values, this module runs no code and truncates the values that it
shows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import zip_longest
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from assayd.findings.runs import merge_similar_findings
from assayd.findings.units import JudgedUnit
from assayd.model.finding import Finding, Layer, Rule
from assayd.model.report import Case, CaseStatus
from assayd.model.run import CapturedOutput
from assayd.model.submission import JsonValue
from assayd.model.text_limits import shorten_text

CASES = 100
NAME_CHARS = 128
TOLERANCE = 1e-6
"""The tolerance of `float` comparisons: relative or absolute, whichever permits more."""

_MAX_SHOWN_CHARS = 600
_PLACE_CHARS = 160
_NOTHING = object()

DIFFERS_RULE = Rule(
    id="case.differs",
    title="A case returned an unexpected result",
    help="Bad: a case expects {'quarter': 1}, and the code returns {'quarter': 'Q1'}.",
)
CUT_RULE = Rule(
    id="case.cut",
    title="A case's output is too long to compare",
    help="Bad: more output than output_kept_bytes. Good: only the expected output.",
)
RULES = (DIFFERS_RULE, CUT_RULE)


class Compare(StrEnum):
    """The mode in which a received value is compared with the expected value."""

    EXACT = "exact"
    """Strings are equal character by character, numbers by value."""
    TOKENS = "tokens"
    """Like `exact`, but strings are compared word by word, without white space."""
    FLOAT = "float"
    """Like `tokens`, but numbers may differ by one millionth."""


class ExpectedCase(BaseModel):
    """The fields that all cases share, regardless of their input."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=NAME_CHARS)]
    compare: Compare = Compare.EXACT


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first location at which two values differ, with the text of both parts."""

    place: str
    expected: str
    received: str


def require_unique_names(cases: Sequence[ExpectedCase]) -> None:
    """Raise ValueError if two cases have the same name."""
    seen: set[str] = set()
    for case in cases:
        if case.name in seen:
            raise ValueError(f"cases: two of them are called {case.name!r}; give each a unique name")
        seen.add(case.name)


def find_difference(
    expected: object, received: object, compare: Compare, place: str = ""
) -> Difference | None:
    """Return the first difference from the expected value, or None if there is none.

    `place` is the location of both values, which is a prefix of the difference's location.
    """
    if isinstance(expected, dict):
        return _find_field_difference(expected, received, compare, place)
    if isinstance(expected, list):
        return _find_element_difference(expected, received, compare, place)
    same = _are_equal_scalars(expected, received, compare)
    return (
        None
        if same
        else Difference(place=place, expected=_render_value(expected), received=_render_value(received))
    )


def find_text_difference(expected: str, received: str, compare: Compare) -> Difference | None:
    """Return the first line that differs from the expected output, or None if the outputs are equal.

    If only white space differs under `exact`, show the ends of both outputs instead.
    """
    if _is_same_text(expected, received, compare):
        return None
    if compare is Compare.EXACT and expected.split() == received.split():
        return Difference(
            place="white space", expected=_shorten_end(expected), received=_shorten_end(received)
        )
    lines = zip_longest(expected.splitlines(), received.splitlines())
    for number, (wanted, given) in enumerate(lines, 1):
        if wanted is None or given is None or not _is_same_text(wanted, given, compare):
            return Difference(
                place=f"line {number}", expected=_render_value(wanted), received=_render_value(given)
            )
    return Difference(place="", expected=_render_value(expected), received=_render_value(received))


def judge_expected_value(tried: JudgedUnit, wanted: ExpectedCase, expected: JsonValue) -> JudgedUnit:
    """Add the expected result to a case. Fail the case if it passed with a different result."""
    tried = _add_expectation(tried, wanted, expected)
    if tried.case.status is not CaseStatus.PASSED:
        return tried
    found = find_difference(expected, tried.case.result, wanted.compare)
    return (
        tried
        if found is None
        else _add_failure(tried, _build_difference_finding(wanted.name, found, "result"))
    )


def judge_expected_output(
    tried: JudgedUnit, wanted: ExpectedCase, expected: str, stdout: CapturedOutput
) -> JudgedUnit:
    """Add the expected output to a case. Fail a case that passed with different or truncated output."""
    tried = _add_expectation(tried, wanted, expected)
    if tried.case.status is not CaseStatus.PASSED:
        return tried
    if stdout.truncated:
        return _add_failure(tried, _build_truncated_finding(wanted.name, stdout))
    found = find_text_difference(expected, stdout.text(), wanted.compare)
    return (
        tried
        if found is None
        else _add_failure(tried, _build_difference_finding(wanted.name, found, "output"))
    )


def merge_findings(tries: Sequence[JudgedUnit]) -> tuple[Finding, ...]:
    """Return the findings of all runs. Merge similar findings, except those with a context."""
    if len(tries) == 1:
        return tries[0].findings
    alike = [(one.case.name, finding) for one in tries for finding in one.findings if not finding.context]
    return (
        *merge_similar_findings(alike),
        *(finding for one in tries for finding in one.findings if finding.context),
    )


_VALUE_RULE_TEXT = 'Cases compare values: 10 equals 10.0, but neither "10" nor true; more fields may exist.'
VALUE_COMPARISON_RULES: Mapping[str, str] = {
    Compare.EXACT: _VALUE_RULE_TEXT,
    Compare.TOKENS: f"{_VALUE_RULE_TEXT} `tokens`: strings word by word, whatever the white space.",
    Compare.FLOAT: f"{_VALUE_RULE_TEXT} `float`: numbers within one millionth, strings word by word.",
}
OUTPUT_COMPARISON_RULES: Mapping[str, str] = {
    Compare.EXACT: "Cases compare the output to the last character.",
    Compare.TOKENS: "`tokens`: the output is compared word by word, whatever the white space.",
    Compare.FLOAT: "`float`: the output is compared word by word, numbers within one millionth.",
}
"""The rules for comparing outputs, by mode, for a prompt."""


def describe_cases(cases: Iterable[tuple[ExpectedCase, object, object]]) -> str:
    """Return the cases for a model, one per line: name, comparison unless exact, input, expected result."""
    return "\n".join(
        f"{shorten_text(case.name, NAME_CHARS)}{_describe_mode(case.compare)}: "
        f"{_render_value(given)} -> {_render_value(expected)}"
        for case, given, expected in cases
    )


def _describe_mode(compare: Compare) -> str:
    return "" if compare is Compare.EXACT else f" ({compare.value})"


def _add_expectation(tried: JudgedUnit, wanted: ExpectedCase, expected: JsonValue) -> JudgedUnit:
    return replace(tried, case=replace(tried.case, name=wanted.name, expected=expected))


def _add_failure(tried: JudgedUnit, finding: Finding) -> JudgedUnit:
    case: Case = replace(tried.case, status=CaseStatus.FAILED, message=finding.message)
    return replace(tried, case=case, findings=(finding,))


def _build_difference_finding(name: str, found: Difference, what: str) -> Finding:
    where = f" at {shorten_text(found.place, _PLACE_CHARS)}" if found.place else ""
    return Finding(
        rule=DIFFERS_RULE.id,
        category="case",
        message=(
            f"The case {name!r} gave another {what} than it expects{where}: "
            f"expected {shorten_text(found.expected, 200)}, received {shorten_text(found.received, 200)}"
        ),
        layer=Layer.RUNTIME,
        context=f"expected{where}: {found.expected}\nreceived: {found.received}",
        suggestion="Change the code so that this case and all others return their expected results.",
    )


def _build_truncated_finding(name: str, stdout: CapturedOutput) -> Finding:
    kept = len(stdout.head) + len(stdout.tail)
    return Finding(
        rule=CUT_RULE.id,
        category="case",
        message=(
            f"The case {name!r} printed {stdout.total_bytes} bytes; only {kept} are kept for the comparison."
        ),
        layer=Layer.RUNTIME,
        suggestion="Print only the output that the case expects.",
    )


def _find_field_difference(
    expected: dict[str, object], received: object, compare: Compare, place: str
) -> Difference | None:
    if not isinstance(received, dict):
        return Difference(place=place, expected=_render_value(expected), received=_render_value(received))
    for name, wanted in expected.items():
        inner = f"{place}.{name}" if place else name
        if (found := find_difference(wanted, received.get(name, _NOTHING), compare, inner)) is not None:
            return found
    return None


def _find_element_difference(
    expected: list[object], received: object, compare: Compare, place: str
) -> Difference | None:
    if not isinstance(received, list) or len(received) != len(expected):
        return Difference(place=place, expected=_render_value(expected), received=_render_value(received))
    for number, (wanted, given) in enumerate(zip(expected, received, strict=True)):
        if (found := find_difference(wanted, given, compare, f"{place}[{number}]")) is not None:
            return found
    return None


def _are_equal_scalars(expected: object, received: object, compare: Compare) -> bool:
    if isinstance(expected, str) and isinstance(received, str):
        return _is_same_text(expected, received, compare)
    if _is_number(expected) and _is_number(received):
        return _is_same_number(expected, received, compare)
    return type(expected) is type(received) and expected == received


def _is_same_text(expected: str, received: str, compare: Compare) -> bool:
    if compare is Compare.EXACT:
        return expected == received
    wanted, given = expected.split(), received.split()
    if compare is Compare.TOKENS or len(wanted) != len(given):
        return wanted == given
    return all(one == other or _is_close(one, other) for one, other in zip(wanted, given, strict=True))


def _is_same_number(expected: object, received: object, compare: Compare) -> bool:
    return expected == received or (compare is Compare.FLOAT and _is_close(expected, received))


def _is_close(one: object, other: object) -> bool:
    """Return whether two numbers, or two words that are finite numbers, are equal within the tolerance."""
    try:
        first, second = float(one), float(other)  # type: ignore[arg-type]  # it raises for other values
    except (ValueError, OverflowError):
        return False
    finite = math.isfinite(first) and math.isfinite(second)
    return finite and math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _render_value(value: object) -> str:
    if value is _NOTHING or value is None:
        return "nothing" if value is _NOTHING else "null"
    text = "".join(_truncate_pieces(json.JSONEncoder(ensure_ascii=False, sort_keys=True).iterencode(value)))
    return shorten_text(text, _MAX_SHOWN_CHARS)


def _truncate_pieces(encoded: Iterable[str]) -> Iterator[str]:
    """Yield the pieces of an encoded value until they exceed the number of characters to show."""
    length = 0
    for piece in encoded:
        yield piece[: _MAX_SHOWN_CHARS + 1]
        length += len(piece)
        if length > _MAX_SHOWN_CHARS:
            return


def _shorten_end(text: str) -> str:
    """Return a text as JSON. If it is long, keep only its end, where white space often differs."""
    return _render_value(text if len(text) <= _PLACE_CHARS else "…" + text[-_PLACE_CHARS:])
