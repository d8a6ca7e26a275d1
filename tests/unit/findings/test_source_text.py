from __future__ import annotations

import pytest

from assayd.findings.source_text import (
    SplitText,
    byte_offset_to_column,
    get_line,
    get_snippet,
    line_number_at,
)


@pytest.mark.parametrize(
    ("line", "shown"),
    [(1, "a"), (2, "  b\x0cc"), (3, ""), (4, None), (0, None), (-1, None), (10**30, None), (None, None)],
)
def test_lines_end_at_newlines_only(line: int | None, shown: str | None) -> None:
    assert get_line("a\n  b\x0cc\n", line) == shown
    assert get_line(SplitText("a\n  b\x0cc\n"), line) == shown


def test_a_snippet_keeps_its_indentation_and_is_cut() -> None:
    assert get_snippet("    x = 1   \n", 1) == "    x = 1"
    assert get_snippet("x" * 500, 1) == "x" * 199 + "…"


def test_a_column_counts_characters() -> None:
    assert byte_offset_to_column("é = 'ü' + x", len("é = 'ü' + ".encode())) == 11


def test_the_line_of_an_index_is_counted_from_one() -> None:
    assert [line_number_at("a\nb\nc", index) for index in (0, 1, 2, 4)] == [1, 1, 2, 3]
