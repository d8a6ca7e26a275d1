"""Positions in a source: Python's line numbers, snippets, and columns in characters.

Only LF ends a line; for the compiler, form feeds and Unicode separators are ordinary characters.
"""

from __future__ import annotations

from functools import cached_property

from assayd.model.text_limits import SNIPPET_CHARS, shorten_text


class SplitText(str):
    """A source that is split into lines at most once, for judges that quote many of its lines."""

    @cached_property
    def lines(self) -> list[str]:
        """Return the lines without their line ends."""
        return self.split("\n")


def line_number_at(text: str, index: int) -> int:
    """Return the 1-based number of the line that contains the character at `index`."""
    return text.count("\n", 0, index) + 1


def get_line(text: str, line: int | None) -> str | None:
    """Return a line without its line end; None if the line doesn't exist."""
    if line is None or not 1 <= line <= len(text) + 1:
        return None
    lines = text.lines if isinstance(text, SplitText) else text.split("\n", line)
    return lines[line - 1] if line <= len(lines) else None


def get_snippet(text: str, line: int | None) -> str | None:
    """Return a line, truncated if it is long; None if the line doesn't exist."""
    found = get_line(text, line)
    return None if found is None else shorten_text(found.rstrip(), SNIPPET_CHARS)


def byte_offset_to_column(line: str, byte_offset: int) -> int:
    """Convert a 0-based offset in UTF-8 bytes to a 1-based column in characters."""
    return len(line.encode("utf-8")[:byte_offset].decode("utf-8", "ignore")) + 1
