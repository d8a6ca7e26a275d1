"""Tables: aligned and coloured on a terminal, where they fit its width; separated by tabs when piped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from assayd_client.cli.screen import Screen, StyledLine, cells, line, wrapped
from assayd_client.cli.terminal import plain

GAP = 2
LEAST = 8
"""Columns are not made narrower than this."""
LEAST_LAST = 16
"""A last column with less room has its cells below the rows."""

STYLES = {
    "validated": "green",
    "failed": "red",
    "error": "bold red",
    "cancelled": "yellow",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}

Row = Sequence[str]


def print_table(screen: Screen, heads: Row, rows: Sequence[Row]) -> None:
    """Print rows; without heads and colours when piped, so that a script can read them.

    The first column is never cut: it is what people copy.
    """
    clean = [[plain(cell).replace("\n", " ").replace("\t", " ") for cell in row] for row in rows]
    if screen.width is None:
        for row in clean:
            screen.print(line("\t".join(row), hang=None))
        return
    screen.lines(_laid_out(heads, clean, screen.width))


def _laid_out(heads: Row, rows: Sequence[Row], width: int) -> Iterator[StyledLine]:
    widths = [max(map(cells, column)) for column in zip(heads, *rows, strict=True)]
    below = False
    if _taken(widths) > width:
        room = width - _taken(widths[:-1]) - GAP
        below = room < min(LEAST_LAST, widths[-1])
        if below:
            widths = widths[:-1]
        else:
            widths[-1] = room
    while _taken(widths) > width and max(widths[1:], default=0) > LEAST:
        widest = widths.index(max(widths[1:]), 1)
        widths[widest] -= 1
    yield from _row(heads[: len(widths)], widths, head=True)
    for row in rows:
        yield from _row(row[: len(widths)], widths)
        if below and row[-1]:
            yield line(f"  {row[-1]}", hang=2)


def _row(row: Row, widths: Sequence[int], *, head: bool = False) -> Iterator[StyledLine]:
    columns = [[row[0]], *(wrapped(cell, width) for cell, width in zip(row[1:], widths[1:], strict=True))]
    for pieces in zip_longest(*columns, fillvalue=""):
        parts: list[tuple[str, str]] = []
        for place, (piece, cell, width) in enumerate(zip(pieces, row, widths, strict=True)):
            last = place == len(widths) - 1
            padding = "" if last else " " * (width - cells(piece) + GAP)
            parts += [(piece, "dim" if head else STYLES.get(cell, "")), (padding, "")]
        yield line(*parts, hang=None)


def _taken(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)
