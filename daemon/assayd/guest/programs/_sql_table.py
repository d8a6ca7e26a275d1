"""Prints selected rows: a line of column names, then one line per row with tab-separated values."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


_ROWS_AT_ONCE = 200
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_ESCAPES = {**_CONTROL, 9: "\\t", 10: "\\n", 13: "\\r"}


def _format_float(value: float) -> str:
    """Format a number like the sqlite3 shell: with 15 digits, and always with a decimal point."""
    if value - value != 0:  # infinite; SQLite has no NaN
        return "Inf" if value > 0 else "-Inf"
    digits, _, exponent = f"{value:.15g}".partition("e")
    digits = digits if "." in digits else f"{digits}.0"
    return f"{digits}e{exponent}" if exponent else digits


class TablePrinter:
    """A printer that counts all rows, but prints only a limited number for all statements together."""

    def __init__(self, *, max_rows: int, max_cell_chars: int) -> None:
        self.rows = 0
        self._left = max_rows
        self._most_chars = max_cell_chars
        self._began = False

    def print_rows(self, number: int, cursor: sqlite3.Cursor) -> None:
        """Print the rows that a statement selects; run it to its end, even if not all rows are shown."""
        before, room = self.rows, self._left
        self._print_line([name for name, *_ in cursor.description or ()], apart=self._began)
        self._began = True
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            self.rows += len(rows)
            for row in rows[: self._left]:
                self._print_line(row)
            self._left = max(self._left - len(rows), 0)
        selected = self.rows - before
        if selected > room:
            print(f"statement {number}: {selected} rows, {room} shown", file=sys.stderr)

    def _print_line(self, cells: tuple[object, ...] | list[str], *, apart: bool = False) -> None:
        sys.stdout.write("\n" * apart + "\t".join(map(self._format_cell, cells)) + "\n")

    def _format_cell(self, value: object) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, bytes):
            text = f"x'{value[: self._most_chars].hex()}'"
        elif isinstance(value, float):
            text = _format_float(value)
        else:
            text = str(value)[: self._most_chars + 1].translate(_ESCAPES)
        return text if len(text) <= self._most_chars else text[: self._most_chars] + "…"
