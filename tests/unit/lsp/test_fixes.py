"""Quick fixes after the text has changed, and their titles."""

from __future__ import annotations

import pytest
from lsprotocol import types

from assayd_lsp.diagnostics import LineMapping, build_line_range, describe_edits

TEXT = "def f(a)\n    return aa\n\nprint(f(1))\n"


def edit(first: int, after: int, text: str) -> types.TextEdit:
    return types.TextEdit(range=build_line_range(first, after), new_text=text)


REPLACES = edit(1, 2, "    return a\n")
INSERTS = edit(0, 0, "import re\n")


def place(found: types.TextEdit | None) -> tuple[int, int] | None:
    return None if found is None else (found.range.start.line, found.range.end.line)


@pytest.mark.parametrize(
    ("now", "replaces", "inserts"),
    [
        (TEXT, (1, 2), (0, 0)),
        (f"import re\n{TEXT}", (2, 3), None),
        (TEXT.replace("print", "show"), (1, 2), (0, 0)),
        (TEXT.replace("aa", "aaa"), None, (0, 0)),
        (TEXT.replace("    return aa\n", ""), None, (0, 0)),
        (TEXT.replace("def f(a)", "def f(a):"), (1, 2), None),
        ("", None, None),
    ],
)
def test_edit_is_offered_for_lines_that_are_the_same(
    now: str, replaces: tuple[int, int] | None, inserts: tuple[int, int] | None
) -> None:
    moved = LineMapping(TEXT, now)
    assert (place(moved.edit(REPLACES)), place(moved.edit(INSERTS))) == (replaces, inserts)


def test_insertion_between_lines_that_are_still_neighbours_moves_with_them() -> None:
    assert place(LineMapping(TEXT, f"# one\n{TEXT}").edit(edit(2, 2, "x = 1\n"))) == (3, 3)
    assert LineMapping(TEXT, TEXT.replace("aa\n", "aa\ny = 2\n")).edit(edit(2, 2, "x = 1\n")) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (edit(0, 1, "def f(a):\n"), "Add ':' at the end of line 1"),
        (edit(1, 2, "    return a\n"), "Remove 'a' at the end of line 2"),
        (edit(3, 4, "print(f(1, 2))\n"), "Add ', 2' in line 4"),
        (edit(3, 4, "return\n"), "Change line 4 to 'return'"),
        (edit(0, 0, "import re\n"), "Insert 'import re' before line 1"),
        (edit(0, 0, "import re\n\n"), "Insert 2 lines before line 1"),
        (edit(3, 4, ""), "Remove line 4"),
        (edit(1, 3, ""), "Remove lines 2 to 3"),
        (edit(1, 3, "    return a\n"), "Replace lines 2 to 3"),
        (edit(3, 4, "\x1b" * 9 + "x" * 90 + "\n"), "Change line 4 to '" + "\\x1b" * 9 + "x" * 23 + "…'"),
    ],
)
def test_title_says_what_the_edit_does(change: types.TextEdit, said: str) -> None:
    assert describe_edits([change], TEXT) == said
