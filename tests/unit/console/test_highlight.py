"""Colored source code, with unchanged text."""

from __future__ import annotations

import re
import time
from html import unescape

import pytest

from assayd_console.rendering import find_open_quotes, highlight_line

QUOTES = '"' * 3


def kinds(line: str, opened: str = "") -> list[tuple[str, str]]:
    found = re.findall(r'<span class="t-(\w+)">(.*?)</span>', str(highlight_line(line, opened)))
    return [(kind, unescape(text)) for kind, text in found]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return path  # of x", [("word", "return"), ("comment", "# of x")]),
        ("x = 'it\\'s' + \"#\"", [("string", "'it\\'s'"), ("string", '"#"')]),
        ("years[2024] = name2", [("number", "2024")]),
        ("SELECT a FROM t -- all", [("word", "SELECT"), ("word", "FROM"), ("comment", "-- all")]),
        ("rm --force ${x#y}", []),
        ("x = 'open", [("string", "'open")]),
        (f"{QUOTES}One.{QUOTES} + 1", [("string", f"{QUOTES}One.{QUOTES}"), ("number", "1")]),
    ],
)
def test_parts_of_a_line_have_their_kinds(line: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(line) == expected


def test_string_of_several_lines_is_one() -> None:
    assert find_open_quotes(f"    {QUOTES}Return", "") == QUOTES
    assert find_open_quotes("don't # stop", QUOTES) == QUOTES
    assert find_open_quotes("", QUOTES) == QUOTES
    assert find_open_quotes(f"end.{QUOTES} and 1", QUOTES) == ""
    assert kinds("don't # stop", QUOTES) == [("string", "don't # stop")]
    assert kinds(f"end.{QUOTES} and 1", QUOTES) == [
        ("string", f"end.{QUOTES}"),
        ("word", "and"),
        ("number", "1"),
    ]


@pytest.mark.parametrize("line", ["<b>'</b>\"&", "'<script>'", "# <i>", "a\u202eb 'c\u200b'", ""])
def test_text_is_escaped_and_complete(line: str) -> None:
    html = str(highlight_line(line))
    tags = set(re.findall(r"<[^>]*>", html))
    assert tags <= {"</span>", *(f'<span class="{name}">' for name in ("code", "t-string", "t-comment"))}
    shown = unescape(re.sub(r"<[^>]*>", "", html))
    assert shown == line.replace("\u202e", "\\x202e").replace("\u200b", "\\x200b")


@pytest.mark.parametrize("part", ["'\\", '"', "'", "# ", "-- ", "a1_", "9.", "'''"])
def test_long_lines_take_linear_time(part: str) -> None:
    began = time.process_time()
    highlight_line(part * 20_000)
    assert time.process_time() - began < 2
