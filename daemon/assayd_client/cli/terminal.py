"""Prints styled lines, tables, quantities and JSON in a form that is safe for a terminal.

This module doesn't import any third-party library, because every command that prints output imports the
module first.
"""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TextIO

MIN_TERMINAL_WIDTH = 20
WIDTH_WHEN_PIPED = 100
DEFAULT_TERMINAL_WIDTH = 80
"""The width of a terminal that doesn't report its width."""

_SGR = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36",
}  # fmt: skip
BLANK_ELLIPSIS = "\N{EM SPACE}"
"""A space as wide as an ellipsis, for marks below an ellipsis; in ASCII, three spaces."""
# The ASCII replacement of each mark; no two marks of a column are the same.
_ASCII_BY_SYMBOL = str.maketrans(
    {"✓": "+", "✗": "x", "⚠": "~", "–": "-", "…": "...", "→": "->", "▸": ">", "·": "-", "│": "|", "⏎": "\\n"}
    | {"├": "|", "└": "`", "─": "-", BLANK_ELLIPSIS: "   "}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StyledLine:
    """A line of text whose parts have styles.

    Attributes:
        parts: texts with their styles, e.g. ``bold red``; an empty style means no style.
        hang: the indentation of continuation lines when the line is wrapped; None if it is never wrapped.
    """

    parts: tuple[tuple[str, str], ...]
    hang: int | None = 0

    @property
    def plain(self) -> str:
        """Return the text of the line without its styles."""
        return "".join(text for text, _ in self.parts)

    def __add__(self, other: StyledLine) -> StyledLine:
        return StyledLine(parts=(*self.parts, *other.parts), hang=self.hang)


def build_line(*parts: str | tuple[str, str], hang: int | None = 0) -> StyledLine:
    """Build a line from texts, each of which is passed either alone or with its style."""
    return StyledLine(parts=tuple((part, "") if isinstance(part, str) else part for part in parts), hang=hang)


class TerminalOutput:
    """An output to which lines are printed.

    Args:
        file: the stream to write to.
        width: the number of columns at which lines are wrapped; None disables wrapping.
        colour: whether styles are printed.
        ascii_only: whether the output can display only ASCII.
    """

    def __init__(
        self, file: TextIO, *, width: int | None = None, colour: bool = False, ascii_only: bool = False
    ) -> None:
        self._file = file
        self.width = width
        self._colour = colour
        self._ascii_only = ascii_only

    @property
    def is_terminal(self) -> bool:
        """Return whether lines are wrapped for display on a terminal."""
        return self.width is not None

    def print(self, printed: StyledLine | str = "") -> None:
        """Print a line. A newline in the text starts another line."""
        shown = self._to_ascii_if_needed(build_line(printed) if isinstance(printed, str) else printed)
        for row in _split_rows(shown, self.width):
            self._file.write(self._render_row(row) + "\n")

    def lines(self, printed: Iterable[StyledLine]) -> None:
        """Print several styled lines."""
        for each in printed:
            self.print(each)

    def redraw(self, printed: Iterable[StyledLine], over: int) -> int:
        """Print lines, one row each, over the last `over` rows, and return the number of rows."""
        width = (self.width or WIDTH_WHEN_PIPED) - 1
        rows = [
            next(_split_rows(self._to_ascii_if_needed(build_line(*each.parts)), width)) for each in printed
        ]
        up = f"\x1b[{over}A" if over else ""
        self._file.write(up + "\x1b[J" + "".join(self._render_row(row) + "\n" for row in rows))
        self._file.flush()
        return len(rows)

    def _to_ascii_if_needed(self, shown: StyledLine) -> StyledLine:
        if not self._ascii_only:
            return shown
        parts = ((to_ascii(text), style) for text, style in shown.parts)
        return StyledLine(parts=tuple(parts), hang=shown.hang)

    def _render_row(self, row: StyledLine) -> str:
        if not self._colour:
            return row.plain
        return "".join(_apply_style(text, style) for text, style in row.parts)


def get_stdout() -> TerminalOutput:
    """Return the terminal output for results, which is standard output."""
    return _create_terminal_output(sys.stdout)


def get_stderr() -> TerminalOutput:
    """Return the terminal output for progress and notes, which is standard error."""
    return _create_terminal_output(sys.stderr)


def to_ascii(text: str) -> str:
    """Replace symbols by ASCII equivalents, and escape other non-ASCII characters."""
    return text.translate(_ASCII_BY_SYMBOL).encode("ascii", "backslashreplace").decode("ascii")


def can_show_unicode(environ: Mapping[str, str] = os.environ, encoding: str | None = "utf-8") -> bool:
    """Return whether the locale and the encoding support characters outside ASCII."""
    said = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "")
    # Python writes UTF-8 in the locale C; a terminal with LC_ALL=C may be unable to read it.
    return said not in {"C", "POSIX"} and (encoding or "").lower().replace("-", "").startswith("utf")


def measure_display_width(text: str) -> int:
    """Return the width of a string on a display, in columns."""
    return len(text) if text.isascii() else sum(map(_get_character_width, text))


def wrap_text(text: str, width: int) -> list[str]:
    """Return the rows that result from wrapping a string at a width."""
    return [row.plain.rstrip() for row in _split_rows(build_line(text), width)]


def _create_terminal_output(file: TextIO) -> TerminalOutput:
    terminal = file.isatty()
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = max(_get_terminal_width(file), MIN_TERMINAL_WIDTH) if terminal else None
    return TerminalOutput(
        file, width=width, colour=colour, ascii_only=not can_show_unicode(encoding=file.encoding)
    )


def _get_terminal_width(file: TextIO) -> int:
    """Return the terminal's width in columns. The variable `COLUMNS` takes precedence."""
    said = os.environ.get("COLUMNS", "")
    if said.isascii() and said.isdigit() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(file.fileno()).columns or DEFAULT_TERMINAL_WIDTH
    except OSError:
        return DEFAULT_TERMINAL_WIDTH


def _apply_style(text: str, style: str) -> str:
    codes = ";".join(_SGR[name] for name in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and text else text


def _get_character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _split_rows(shown: StyledLine, width: int | None) -> Iterator[StyledLine]:
    """Yield the rows of a line, split at its newlines and, if wrapping is enabled, at the width.

    In a line with `hang`, text after a newline is marked as part of the line. Otherwise, untrusted text could
    imitate a line that the client printed.
    """
    letters = [(letter, style) for text, style in shown.parts for letter in text]
    while True:
        end = next((place for place, (letter, _) in enumerate(letters) if letter == "\n"), None)
        row = letters if end is None else letters[:end]
        if width is None or shown.hang is None:
            yield _join_letters(row)
        else:
            yield from _wrap_letters(row, width, min(shown.hang, width // 2))
        if end is None:
            return
        letters = [*_get_continuation_prefix(shown.hang or 0), *letters[end + 1 :]]


def _get_continuation_prefix(hang: int) -> Iterator[tuple[str, str]]:
    return ((letter, "dim") for letter in (f"{'':{hang}}│ " if hang else ""))


def _wrap_letters(letters: list[tuple[str, str]], width: int, hang: int) -> Iterator[StyledLine]:
    room, indent = width, ""
    while True:
        cut = _find_break_position(letters, room)
        if cut is None:
            yield build_line(indent) + _join_letters(letters)
            return
        yield build_line(indent) + _join_letters(letters[:cut])
        letters = letters[cut:]
        while letters and letters[0][0] == " ":
            letters = letters[1:]
        room, indent = width - hang, " " * hang


def _find_break_position(letters: list[tuple[str, str]], room: int) -> int | None:
    """Return the index at which to cut a row, if possible at a space in its latter half; None if it fits."""
    taken, space = 0, 0
    for place, (letter, _) in enumerate(letters):
        taken += _get_character_width(letter)
        if taken > room:
            if letter == " ":
                return place
            return space if space > place // 2 else max(place, 1)
        if letter == " ":
            space = place + 1
    return None


def _join_letters(letters: list[tuple[str, str]]) -> StyledLine:
    parts: list[tuple[str, str]] = []
    for letter, style in letters:
        if parts and parts[-1][1] == style:
            parts[-1] = (parts[-1][0] + letter, style)
        else:
            parts.append((letter, style))
    return StyledLine(parts=tuple(parts))


# Control characters except tab and newline, marks that reorder text, and invisible characters. With them, a
# guest could rewrite the screen, disguise a source line, or hide instructions for a model in copied text.
UNSAFE_PATTERN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def plain(text: str) -> str:
    """Replace the control characters in untrusted text by their codes, so that it is safe to print."""
    if text.isascii() and text.isprintable():  # the usual case, for which lists call this hundreds of times
        return text
    return UNSAFE_PATTERN.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def shorten(text: str, most: int) -> str:
    """Return untrusted text as one printable line of at most `most` characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def print_json(document: object) -> None:
    """Print a document as JSON.

    On a terminal, the output is in ASCII, because results can contain any characters.
    """
    print(json.dumps(document, indent=2, ensure_ascii=sys.stdout.isatty()))


GAP = 2
LEAST = 8
"""Minimum width of a column in a table."""
MIN_LAST_COLUMN_WIDTH = 16
"""A last column with less room than this is printed below the rows."""

STYLE_BY_STATUS = {
    "validated": "green",
    "failed": "red",
    "error": "bold red",
    "cancelled": "yellow",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}

Row = Sequence[str]


def print_table(screen: TerminalOutput, heads: Row, rows: Sequence[Row]) -> None:
    """Print rows as a table.

    In piped output, heads and colours are omitted, so that scripts can read the rows.

    The first column is never truncated, because users copy its values.
    """
    clean = [[plain(cell).replace("\n", " ").replace("\t", " ") for cell in row] for row in rows]
    if screen.width is None:
        for row in clean:
            screen.print(build_line("\t".join(row), hang=None))
        return
    screen.lines(_iter_table_lines(heads, clean, screen.width))


def print_result(document: object, heads: Row, rows: Iterable[Row], *, as_json: bool) -> None:
    """Print a document as JSON, or its rows as a table."""
    if as_json:
        print_json(document)
    else:
        print_table(get_stdout(), heads, list(rows))


def _iter_table_lines(heads: Row, rows: Sequence[Row], width: int) -> Iterator[StyledLine]:
    widths = [max(map(measure_display_width, column)) for column in zip(heads, *rows, strict=True)]
    below = False
    if _sum_widths(widths) > width:
        room = width - _sum_widths(widths[:-1]) - GAP
        below = room < min(MIN_LAST_COLUMN_WIDTH, widths[-1])
        if below:
            widths = widths[:-1]
        else:
            widths[-1] = room
    while _sum_widths(widths) > width and max(widths[1:], default=0) > LEAST:
        widest = widths.index(max(widths[1:]), 1)
        widths[widest] -= 1
    yield from _iter_row_lines(heads[: len(widths)], widths, head=True)
    for row in rows:
        yield from _iter_row_lines(row[: len(widths)], widths)
        if below and row[-1]:
            yield build_line(f"  {row[-1]}", hang=2)


def _iter_row_lines(row: Row, widths: Sequence[int], *, head: bool = False) -> Iterator[StyledLine]:
    columns = [[row[0]], *(wrap_text(cell, width) for cell, width in zip(row[1:], widths[1:], strict=True))]
    for pieces in zip_longest(*columns, fillvalue=""):
        parts: list[tuple[str, str]] = []
        for place, (piece, cell, width) in enumerate(zip(pieces, row, widths, strict=True)):
            last = place == len(widths) - 1
            padding = "" if last else " " * (width - measure_display_width(piece) + GAP)
            parts += [(piece, "dim" if head else STYLE_BY_STATUS.get(cell, "")), (padding, "")]
        yield build_line(*parts, hang=None)


def _sum_widths(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def format_duration(milliseconds: float) -> str:
    """Return a duration as text, e.g. ``5.2ms``, ``240ms`` or ``1.50s``."""
    if milliseconds < 100:
        return f"{milliseconds:.1f}ms"
    return f"{milliseconds:.0f}ms" if milliseconds < 1000 else f"{milliseconds / 1000:.2f}s"


def format_age(seconds: float) -> str:
    """Return an age in its largest unit, e.g. ``5min``, ``3h`` or ``12d``, or ``now`` below one minute."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit:.0f}{name}"
    return "now"


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
