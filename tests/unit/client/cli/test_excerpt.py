"""A source line in the width of a terminal, with its underlined part."""

from __future__ import annotations

import pytest

from assayd_client.cli.report import crop_line
from assayd_client.cli.terminal import measure_display_width

ROOM = 40


@pytest.mark.parametrize(
    ("source", "column", "shown", "marks"),
    [
        ("import os", 1, "import os", "^^^^^^"),
        ("x = os.path.join(a)", 5, "x = os.path.join(a)", "    ^^^^^^^^^^^^"),
        ("x = (a]", 7, "x = (a]", "      ^"),
        ("\treturn a", 9, "    return a", "           ^"),
        ("ab\tc = d", 8, "ab  c = d", "        ^"),
        (
            "x = '\N{CJK UNIFIED IDEOGRAPH-4E2D}' + y",
            11,
            "x = '\N{CJK UNIFIED IDEOGRAPH-4E2D}' + y",
            "           ^",
        ),
        ("x = '\x1b' + y", 11, "x = '\\x1b' + y", "             ^"),
        ("def f()", 8, "def f()", "       ^"),
        ("", 1, "", "^"),
        ("def f()", 9, "def f()", ""),
        ("def f()", None, "def f()", ""),
    ],
)
def test_name_at_the_column_is_underlined(source: str, column: int | None, shown: str, marks: str) -> None:
    assert crop_line(source, column, ROOM) == (shown, marks)


@pytest.mark.parametrize("column", [1, 20, 39, 41, 100, 150, 189, 200])
def test_long_line_is_cropped_around_the_column(column: int) -> None:
    source = "." * (column - 1) + "n" + "." * (200 - column)
    shown, marks = crop_line(source, column, ROOM)
    assert (measure_display_width(shown) <= ROOM, shown[len(marks) - 1]) == (True, "n")
    assert (shown.startswith("…"), shown.endswith("…")) == (column >= ROOM, column < 180)


def test_long_line_without_a_column_is_cropped_at_its_end() -> None:
    assert crop_line("x" * 200, None, ROOM) == ("x" * (ROOM - 1) + "…", "")


def test_name_that_is_cropped_is_underlined_as_far_as_it_is_shown() -> None:
    shown, marks = crop_line("n" * 200, 1, ROOM)
    assert (len(shown), len(marks)) == (ROOM, ROOM - 1)
