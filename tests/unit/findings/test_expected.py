"""A case's expected and actual values: equality, first difference, and message."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.findings.expected import (
    Compare,
    ExpectedCase,
    describe_cases,
    find_difference,
    find_text_difference,
    judge_expected_output,
    judge_expected_value,
)
from assayd.findings.retry_context import build_retry_context
from assayd.findings.units import JudgedUnit
from assayd.model.report import Case, CaseStatus
from assayd.model.run import CapturedOutput

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.sampled_from(Compare))
def test_what_is_expected_differs_from_itself_nowhere(value: object, compare: Compare) -> None:
    assert find_difference(value, json.loads(json.dumps(value)), compare) is None


@pytest.mark.parametrize(
    ("expected", "received", "compare", "place"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, "exact", None),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, "exact", None),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "exact", "a.b"),
        ({"a": 1}, {"b": 1}, "exact", "a"),
        ({"a": None}, {}, "exact", "a"),
        ([1, 2], [1, 3], "exact", "[1]"),
        ([1, 2], [1, 2, 3], "exact", ""),
        (1, 1.0, "exact", None),
        (1, True, "exact", ""),
        (0, False, "float", ""),
        (1, "1", "exact", ""),
        (0.3, 0.1 + 0.2, "exact", ""),
        (0.3, 0.1 + 0.2, "float", None),
        (10**400, 10**400 + 1, "float", ""),
        ("a  b", "a b", "exact", ""),
        ("a  b", " a b\n", "tokens", None),
        ("x 1.0000001", "x 1", "float", None),
        ("x nan", "y nan", "float", ""),
        ({"a": 1}, "a", "exact", ""),
        ({}, [], "exact", ""),
    ],
)
def test_named_parts_have_to_be_equal(
    expected: object, received: object, compare: str, place: str | None
) -> None:
    found = find_difference(expected, received, Compare(compare))
    assert (None if found is None else found.place) == place


@pytest.mark.parametrize(
    ("expected", "received", "compare", "place"),
    [
        ("6\n", "6\n", "exact", None),
        ("6", "6\n", "exact", "white space"),
        ("6", "6\n", "tokens", None),
        ("a\nb\n", "a\nc\n", "exact", "line 2"),
        ("a\nb\n", "a\n", "tokens", "line 2"),
        ("0.333333", "0.3333333333\n", "float", None),
        ("0.333333", "0.34\n", "float", "line 1"),
    ],
)
def test_printed_text_differs_at_its_first_line(
    expected: str, received: str, compare: str, place: str | None
) -> None:
    found = find_text_difference(expected, received, Compare(compare))
    assert (None if found is None else found.place) == place


def tried(value: object = None, status: CaseStatus = CaseStatus.PASSED) -> JudgedUnit:
    return JudgedUnit(case=Case(name="unit", status=status, result=value))  # type: ignore[arg-type]


def test_difference_is_told_in_case_hint_and_retry_context() -> None:
    wanted = ExpectedCase(name="second quarter")
    judged = judge_expected_value(tried({"quarter": "Q2"}), wanted, {"quarter": 2})
    assert judged.case.status is CaseStatus.FAILED
    assert judged.case.name == "second quarter"
    assert judged.case.expected == {"quarter": 2}
    assert judged.case.result == {"quarter": "Q2"}
    [finding] = judged.findings
    assert finding.rule == "case.differs"
    assert finding.context == 'expected at quarter: 2\nreceived: "Q2"'
    told = build_retry_context(judged.findings, headline="It failed:")
    assert 'expected at quarter: 2 received: "Q2"' in told


def test_case_that_did_not_run_well_is_not_compared() -> None:
    judged = judge_expected_value(tried(None, CaseStatus.ERROR), ExpectedCase(name="x"), {"a": 1})
    assert judged.case.status is CaseStatus.ERROR
    assert judged.case.expected == {"a": 1}
    assert not judged.findings


def test_output_that_was_cut_fails_even_if_its_rest_is_right() -> None:
    stdout = CapturedOutput(head=b"6", tail=b"", total_bytes=10)
    judged = judge_expected_output(tried(), ExpectedCase(name="x"), "6", stdout)
    assert [finding.rule for finding in judged.findings] == ["case.cut"]
    whole = judge_expected_output(
        tried(), ExpectedCase(name="x"), "6", CapturedOutput(head=b"6", total_bytes=1)
    )
    assert whole.case.status is CaseStatus.PASSED


def test_what_a_guest_gave_is_cut_where_it_is_shown() -> None:
    judged = judge_expected_value(tried(["x" * 1000] * 1000), ExpectedCase(name="x"), [])
    [finding] = judged.findings
    assert len(finding.message) < 1000
    assert len(finding.context or "") < 1500


def test_cases_are_told_on_a_line_each() -> None:
    case = ExpectedCase(name="n", compare=Compare.TOKENS)
    assert describe_cases([(case, "in\nput", "out")]) == 'n (tokens): "in\\nput" -> "out"'
