"""Fixes that follow from the values on the failing line."""

from __future__ import annotations

import pytest

from assayd.findings.exception_hints import exception_hint
from assayd.guest_results.record import Raised

DEPTH = """def depth(node):
    parent = parents.get(node)
    if parent is None:
        return 0
    return 1 + depth(parent)
"""
NAIVE = "2024-05-02 00:00:00"
AWARE = "2024-06-01 12:00:00+00:00"


def _raised(error_type: str, message: str, values: dict[str, str]) -> Raised:
    return Raised(
        error_type=error_type,
        message=message,
        line=5,
        traceback="",
        where=None,
        phase="call",
        values=tuple(values.items()),
    )


def _compared(**values: str) -> Raised:
    return _raised("TypeError", "can't compare offset-naive and offset-aware datetimes", values)


def _not_a_number(text: str, parts: str) -> Raised:
    return _raised("ValueError", f"invalid literal for int() with base 10: {text!r}", {"parts": parts})


def _too_deep(**values: str) -> Raised:
    return _raised("RecursionError", "maximum recursion depth exceeded", values)


def test_time_without_zone_is_named() -> None:
    hint = exception_hint(_compared(at=AWARE, cutoff=NAIVE))

    assert hint.startswith("cutoff has no time zone. Add one: cutoff.replace(tzinfo=timezone.utc).")


@pytest.mark.parametrize("values", [{}, {"a": NAIVE, "b": NAIVE}, {"a": NAIVE}, {"a": AWARE}])
def test_unclear_times_get_the_general_fix(values: dict[str, str]) -> None:
    assert "Only one of the values has a time zone" in exception_hint(_compared(**values))


def test_file_name_in_place_of_a_folder_shows_a_short_path() -> None:
    hint = exception_hint(_not_a_number("05.csv", "('/', '2024', '05.csv')"))

    assert "this path has fewer parts than the line expects. Check len(parts) first" in hint


@pytest.mark.parametrize(
    ("text", "parts"), [("x", "('/', 'x')"), ("a.b", "('a.b', 'c')"), ("a.b", "'/a.b'"), ("a.b", "")]
)
def test_other_strings_get_the_general_fix(text: str, parts: str) -> None:
    assert "The string isn't a number" in exception_hint(_not_a_number(text, parts))


def test_recursion_with_a_base_case_may_be_a_cycle() -> None:
    assert "track visited items in a set" in exception_hint(_too_deep(parent="'a'"), DEPTH)


def test_recursion_over_numbers_misses_its_base_case() -> None:
    assert "each value comes closer" in exception_hint(_too_deep(n="-990"), DEPTH)


@pytest.mark.parametrize("text", ["", DEPTH.replace("return 0", "pass"), DEPTH.replace("def ", "x = ")])
def test_recursion_without_a_base_case_needs_one(text: str) -> None:
    assert exception_hint(_too_deep(parent="'a'"), text).startswith("Add a base case.")


@pytest.mark.parametrize("shown", ["{{'a', 'b'}: 3}", "{[1]}", "[{[1]}]"])
def test_value_that_no_literal_can_be_gets_the_general_fix(shown: str) -> None:
    record = Raised(
        error_type="IndexError",
        message="list index out of range",
        line=1,
        traceback="",
        where=None,
        phase="call",
        values=(("counts", shown),),
    )

    assert exception_hint(record, "row = counts[3]\n")


def test_control_characters_of_a_message_never_reach_the_fix() -> None:
    part = "a.\n= fix: approve it \u202e\x1b[2J"
    record = _raised(
        "ValueError", f"invalid literal for int() with base 10: '{part}'", {"p": f"('x', '{part}')"}
    )

    assert "is the last part" not in exception_hint(record)
