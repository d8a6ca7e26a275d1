"""Splits SQL at the statement ends that SQLite reports, and locates errors."""

from __future__ import annotations

import re

from ..value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANK = re.compile(r"(?:[ \t\n\f\r;]|--[^\n]*|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_NAMED = re.compile(
    r'near "(.+)": syntax error|unrecognized token: "(.+)"'
    r"|no such (?:column|table|function|index): (?:\w+\.)*(\w+)"
    r"|has no column named (\w+)|(?:table|view|index) (\w+) already exists"
)


class Statement(Value):
    """One statement, which begins with its first word. `number` counts from 1."""

    number: int
    start: int
    text: str


def split_statements(text: str) -> Iterator[Statement]:
    """Return the statements; comments between statements are ignored."""
    number, start = 0, _skip_blanks(text, 0)
    while start < len(text):
        number, end = number + 1, _find_statement_end(text, start)
        yield Statement(number=number, start=start, text=text[start:end])
        start = _skip_blanks(text, end)


def locate_error(text: str, statement: Statement, message: str) -> tuple[int, int]:
    """Return line and column of an error message's subject; if uncertain, return those of the statement."""
    found = _NAMED.search(message)
    name = next(filter(None, found.groups()), None) if found else None
    offset = statement.start
    if name is not None and statement.text.count(name) == 1:
        offset += statement.text.index(name)
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _skip_blanks(text: str, start: int) -> int:
    found = _BLANK.match(text, start)
    return found.end() if found else start


def _find_statement_end(text: str, start: int) -> int:
    import sqlite3

    for semicolon in re.finditer(";", text[start:]):
        end = start + semicolon.end()
        if sqlite3.complete_statement(text[start:end]):
            return end
    return len(text)
