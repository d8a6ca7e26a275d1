"""Lines on a screen: wrapped, in color, in ASCII."""

from __future__ import annotations

import io

import pytest

from assayd_client.cli.report import MARKS
from assayd_client.cli.terminal import (
    StyledLine,
    TerminalOutput,
    build_line,
    can_show_unicode,
    measure_display_width,
    to_ascii,
    wrap_text,
)


def printed(*lines: StyledLine | str, **screen) -> str:
    file = io.StringIO()
    for each in lines:
        TerminalOutput(file, **screen).print(each)
    return file.getvalue()


def test_line_is_wrapped_at_spaces_and_hangs() -> None:
    assert printed(build_line("one two three four", hang=2), width=9) == "one two \n  three \n  four\n"


def test_word_that_is_wider_than_the_screen_is_cut() -> None:
    assert wrap_text("abcdefghij", 4) == ["abcd", "efgh", "ij"]


@pytest.mark.parametrize("width", [None, 60])
def test_newline_in_a_text_never_begins_a_line_of_ours(width: int | None) -> None:
    forged = build_line(("error[x]", "bold"), " no\nValidation: ✓ Passed\nCause: completed", hang=2)
    assert printed(forged, width=width) == "error[x] no\n  │ Validation: ✓ Passed\n  │ Cause: completed\n"


def test_line_that_hangs_nowhere_is_left_whole() -> None:
    assert printed(build_line("one two three", hang=None), width=5) == "one two three\n"


def test_nothing_is_wrapped_where_there_is_no_terminal() -> None:
    assert printed("word " * 50) == "word " * 50 + "\n"


def test_wide_letters_take_two_columns() -> None:
    assert measure_display_width("日本") == 4
    assert wrap_text("日本語", 4) == ["日本", "語"]


def test_styles_are_shown_where_colours_are() -> None:
    assert printed(build_line(("bad", "bold red"), " x"), colour=True) == "\x1b[1;31mbad\x1b[0m x\n"
    assert printed(build_line(("bad", "bold red"), " x")) == "bad x\n"


def test_marks_differ_in_ascii_and_stay_one_column() -> None:
    marks = [to_ascii(mark) for mark, _ in MARKS.values()]
    assert len(set(marks)) == len(MARKS)
    assert all(mark.isascii() and len(mark) == 1 for mark in marks)


def test_foreign_letters_are_written_as_their_codes_in_ascii() -> None:
    assert printed("naïve ✓ → 日", ascii_only=True) == "na\\xefve + -> \\u65e5\n"


@pytest.mark.parametrize(
    ("environ", "letters"),
    [
        ({"LC_ALL": "C"}, False),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, False),
        ({"LANG": "POSIX"}, False),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, True),
        ({}, True),
    ],
)
def test_locale_decides_what_can_be_shown(environ: dict[str, str], letters: bool) -> None:
    assert can_show_unicode(environ) is letters


def test_encoding_without_other_letters_shows_none() -> None:
    assert not can_show_unicode({}, "ISO-8859-1")
    assert can_show_unicode({}, "UTF-8")


def test_redrawn_lines_take_the_place_of_the_last() -> None:
    file = io.StringIO()
    screen = TerminalOutput(file, width=10)
    assert screen.redraw([build_line("a" * 30), build_line("b")], 0) == 2
    screen.redraw([], 2)
    assert file.getvalue() == "\x1b[J" + "a" * 9 + "\nb\n" + "\x1b[2A\x1b[J"
