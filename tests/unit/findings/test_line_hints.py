"""What the expression on the failing line says about an exception."""

from __future__ import annotations

import pytest

from assayd.findings.exception_hints import exception_hint
from assayd.findings.line_hints import hint_by_expression
from assayd.guest_results.record import Raised

SHORT = "not enough values to unpack (expected 3, got 2)"
LONG = "too many values to unpack (expected 3)"
ADDED = "unsupported operand type(s) for +: 'float' and 'str'"
LINES = "Extra data: line 2 column 1 (char 34)"


def raised(error_type: str, message: str, values: tuple[tuple[str, str], ...] = ()) -> Raised:
    return Raised(
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
    assert exception_hint(raised("ValueError", message), line) == hint


@pytest.mark.parametrize(
    "line",
    ["x, y, z = parts[n:4]", "x, y, z = parts[2:]", "x, *y, z = parts[2:3]", "x, y = parts[2:3]", "x, y ="],
)
def test_line_that_shows_no_constant_slice_has_no_hint(line: str) -> None:
    assert hint_by_expression(raised("ValueError", SHORT), "ValueError", line) is None


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
    assert hint_by_expression(record, "TypeError", line) == hint


def test_two_strings_on_a_line_leave_the_operand_open() -> None:
    record = raised("TypeError", ADDED, (("a", "'1'"), ("b", "'2'")))
    assert hint_by_expression(record, "TypeError", "n = 1.0 + a + b") is None


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("events = json.load(sys.stdin)", "sys.stdin"),
        ("for event in json.loads(f.read()):", "f"),
        ("events = json.loads(text)", "text.splitlines()"),
    ],
)
def test_values_on_separate_lines_are_parsed_one_by_one(line: str, lines: str) -> None:
    hint = hint_by_expression(raised("JSONDecodeError", LINES), "JSONDecodeError", line)
    assert hint == f"The input has one JSON value per line. Write `[json.loads(line) for line in {lines}]`."


@pytest.mark.parametrize(
    ("program", "words"), [("git", "pass its output as an input"), ("sort", "Python's standard library")]
)
def test_missing_program_has_one_replacement(program: str, words: str) -> None:
    record = raised("FileNotFoundError", f"[Errno 2] No such file or directory: '{program}'")
    assert words in exception_hint(record, f"out = subprocess.run([{program!r}])")
