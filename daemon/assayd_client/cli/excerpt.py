"""One line of source as a report shows it: cropped around a column, the name there underlined. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from assayd_client.cli.screen import BLANK_ELLIPSIS, cells
from assayd_client.cli.terminal import plain

TAB = 4
NAME = re.compile(r"\w+(?:\.\w+)*")


def name_end(source: str, begin: int) -> int:
    """Return where the name ends that begins at an index, dots included; without a name, the next index."""
    found = NAME.match(source, begin)
    return found.end() if found else begin + 1


def excerpt(source: str, column: int | None, room: int) -> tuple[str, str]:
    """Return a line as it is shown in so many columns, and the marks for the line below it.

    There are no marks without a column, or with one that is beyond the line's end; the place right after
    the last character counts, since that is where something may be missing.

    Args:
        source: one line, without its end.
        column: in characters of the source, from 1.
        room: columns of the terminal.
    """
    shown = _shown(source)
    widths = [cells(each) for each in shown]
    begin = end = 0
    marked = column is not None and 0 < column <= len(source) + 1
    if column is not None and marked:
        begin = column - 1
        end = min(name_end(source, begin), len(source))
    first, last = _window(widths, begin, end, room)
    head, tail = "…" if first else "", "…" if last < len(shown) else ""
    text = f"{head}{''.join(shown[first:last])}{tail}"
    if not marked:
        return text, ""
    blank = (BLANK_ELLIPSIS if first else "") + " " * sum(widths[first:begin])
    return text, blank + "^" * max(sum(widths[begin : min(end, last)]), 1)


def _shown(source: str) -> list[str]:
    """Return what each character is shown as: tabs as spaces, what acts on a terminal as its code."""
    shown: list[str] = []
    at = 0
    for character in source:
        piece = " " * (TAB - at % TAB) if character == "\t" else plain(character)
        shown.append(piece)
        at += cells(piece)
    return shown


def _window(widths: Sequence[int], begin: int, end: int, room: int) -> tuple[int, int]:
    """Return the first and last index of the part that is shown; a column is left for each ellipsis."""
    if sum(widths) <= room:
        return 0, len(widths)
    first = 0
    if sum(widths[:end]) >= room:
        first, before = begin, 0
        while first and before + widths[first - 1] <= room // 2:
            first -= 1
            before += widths[first]
    last, used = first, 2 if first else 1
    while last < len(widths) and used + widths[last] <= room:
        used += widths[last]
        last += 1
    return first, last
