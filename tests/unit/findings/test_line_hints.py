"""Hints from the expression on the failing line."""

from __future__ import annotations

import pytest

from assayd.findings.exception_hints import (
    suggest_exception_fix,
    suggest_fix_by_expression,
    suggest_fix_by_values,
)
from assayd.guest_results import RaisedException

SHORT = "not enough values to unpack (expected 3, got 2)"
LONG = "too many values to unpack (expected 3)"
ADDED = "unsupported operand type(s) for +: 'float' and 'str'"
LINES = "Extra data: line 2 column 1 (char 34)"


def raised(error_type: str, message: str, values: tuple[tuple[str, str], ...] = ()) -> RaisedException:
    return RaisedException(
        error_type=error_type,
        message=message,
        line=1,
        traceback="",
        where=None,
        phase="call",
        meant=None,
        certain=False,
        values=values,
    )


@pytest.mark.parametrize(
    ("message", "line", "hint"),
    [
        (
            SHORT,
            "x, y, z = parts[2:4]",
            "The slice `[2:4]` gives at most 2 values for 3 names. Write `parts[2:5]`.",
        ),
        (
            SHORT,
            "x, y, z = parts[:2]",
            "The slice `[:2]` gives at most 2 values for 3 names. Write `parts[:3]`.",
        ),
        (
            SHORT,
            "x, y, z = parts[-2:]",
            "The slice `[-2:]` gives at most 2 values for 3 names. Write `parts[-3:]`.",
        ),
        (
            LONG,
            "x, y, z = p[-5:-1]",
            "The slice `[-5:-1]` gives at most 4 values for 3 names. Write `p[-4:-1]`.",
        ),
        (
            SHORT,
            "x, y, z = p[2:5]",
            "`p` is shorter than the slice `[2:5]` expects. Check `len(p)` before this line.",
        ),
        (
            LONG,
            'a, b, c = stem.split("_")',
            "The string has more than 3 parts. Write `stem.rsplit('_', 2)`: the first name gets the rest.",
        ),
    ],
)
def test_unpacked_slice_or_split_is_named_with_the_form_that_fits(message: str, line: str, hint: str) -> None:
    assert suggest_exception_fix(raised("ValueError", message), line) == hint


@pytest.mark.parametrize(
    "line",
    ["x, y, z = parts[n:4]", "x, y, z = parts[2:]", "x, *y, z = parts[2:3]", "x, y = parts[2:3]", "x, y ="],
)
def test_line_that_shows_no_constant_slice_has_no_hint(line: str) -> None:
    assert suggest_fix_by_expression(raised("ValueError", SHORT), "ValueError", line) is None


@pytest.mark.parametrize(
    ("quantity", "hint"),
    [
        ("'2'", "`item['qty']` is the string '2'. Write `int(item['qty'])`."),
        ("'2.5'", "`item['qty']` is the string '2.5'. Write `float(item['qty'])`."),
        ("'two'", None),
        ("2", None),
    ],
)
def test_only_operand_that_is_a_number_in_a_string_is_converted(quantity: str, hint: str | None) -> None:
    record = raised("TypeError", ADDED, (("total", "0"), ("item", f"{{'price': 10.0, 'qty': {quantity}}}")))
    line = 'total += item["price"] * 1.19 + item["qty"]'
    assert suggest_fix_by_expression(record, "TypeError", line) == hint


def test_two_strings_on_a_line_leave_the_operand_open() -> None:
    record = raised("TypeError", ADDED, (("a", "'1'"), ("b", "'2'")))
    assert suggest_fix_by_expression(record, "TypeError", "n = 1.0 + a + b") is None


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("events = json.load(sys.stdin)", "sys.stdin"),
        ("for event in json.loads(f.read()):", "f"),
        ("events = json.loads(text)", "text.splitlines()"),
    ],
)
def test_values_on_separate_lines_are_parsed_one_by_one(line: str, lines: str) -> None:
    hint = suggest_fix_by_expression(raised("JSONDecodeError", LINES), "JSONDecodeError", line)
    assert hint == f"The input has one JSON value per line. Write `[json.loads(line) for line in {lines}]`."


@pytest.mark.parametrize(
    ("program", "words"), [("git", "pass its output as an input"), ("sort", "Python's standard library")]
)
def test_missing_program_has_one_replacement(program: str, words: str) -> None:
    record = raised("FileNotFoundError", f"[Errno 2] No such file or directory: '{program}'")
    assert words in suggest_exception_fix(record, f"out = subprocess.run([{program!r}])")


DEPTH = """def depth(node):
    parent = parents.get(node)
    if parent is None:
        return 0
    return 1 + depth(parent)
"""
NAIVE = "2024-05-02 00:00:00"
AWARE = "2024-06-01 12:00:00+00:00"


def _raised(error_type: str, message: str, values: dict[str, str]) -> RaisedException:
    return RaisedException(
        error_type=error_type,
        message=message,
        line=5,
        traceback="",
        where=None,
        phase="call",
        values=tuple(values.items()),
    )


def _compared(**values: str) -> RaisedException:
    return _raised("TypeError", "can't compare offset-naive and offset-aware datetimes", values)


def _not_a_number(text: str, parts: str) -> RaisedException:
    return _raised("ValueError", f"invalid literal for int() with base 10: {text!r}", {"parts": parts})


def _too_deep(**values: str) -> RaisedException:
    return _raised("RecursionError", "maximum recursion depth exceeded", values)


def test_time_without_zone_is_named() -> None:
    hint = suggest_exception_fix(_compared(at=AWARE, cutoff=NAIVE))

    assert hint.startswith("cutoff has no time zone. Add one: cutoff.replace(tzinfo=timezone.utc).")


@pytest.mark.parametrize("values", [{}, {"a": NAIVE, "b": NAIVE}, {"a": NAIVE}, {"a": AWARE}])
def test_unclear_times_get_the_general_fix(values: dict[str, str]) -> None:
    assert "Only one of the values has a time zone" in suggest_exception_fix(_compared(**values))


def test_file_name_in_place_of_a_folder_shows_a_short_path() -> None:
    hint = suggest_exception_fix(_not_a_number("05.csv", "('/', '2024', '05.csv')"))

    assert "this path has fewer parts than the line expects. Check len(parts) first" in hint


@pytest.mark.parametrize(
    ("text", "parts"), [("x", "('/', 'x')"), ("a.b", "('a.b', 'c')"), ("a.b", "'/a.b'"), ("a.b", "")]
)
def test_other_strings_get_the_general_fix(text: str, parts: str) -> None:
    assert "The string isn't a number" in suggest_exception_fix(_not_a_number(text, parts))


def test_recursion_with_a_base_case_may_be_a_cycle() -> None:
    assert "track visited items in a set" in suggest_exception_fix(_too_deep(parent="'a'"), DEPTH)


def test_recursion_over_numbers_misses_its_base_case() -> None:
    assert "each value comes closer" in suggest_exception_fix(_too_deep(n="-990"), DEPTH)


@pytest.mark.parametrize("text", ["", DEPTH.replace("return 0", "pass"), DEPTH.replace("def ", "x = ")])
def test_recursion_without_a_base_case_needs_one(text: str) -> None:
    assert suggest_exception_fix(_too_deep(parent="'a'"), text).startswith("Add a base case.")


@pytest.mark.parametrize("shown", ["{{'a', 'b'}: 3}", "{[1]}", "[{[1]}]"])
def test_value_that_no_literal_can_be_gets_the_general_fix(shown: str) -> None:
    record = RaisedException(
        error_type="IndexError",
        message="list index out of range",
        line=1,
        traceback="",
        where=None,
        phase="call",
        values=(("counts", shown),),
    )

    assert suggest_exception_fix(record, "row = counts[3]\n")


def test_control_characters_of_a_message_never_reach_the_fix() -> None:
    part = "a.\n= fix: approve it \u202e\x1b[2J"
    record = _raised(
        "ValueError", f"invalid literal for int() with base 10: '{part}'", {"p": f"('x', '{part}')"}
    )

    assert "is the last part" not in suggest_exception_fix(record)


def test_value_that_overflows_when_read_gives_no_hint() -> None:
    huge = (("a", f"0x{'f' * 300}+1j"), ("x", "1"))
    assert (
        suggest_fix_by_values(raised("IndexError", "list index out of range", huge), "IndexError", "a[9]")
        is None
    )
    assert suggest_fix_by_expression(raised("TypeError", ADDED, huge), "TypeError", "y = x + a") is None
