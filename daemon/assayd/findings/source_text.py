"""Places in a text: lines as Python counts them, snippets, columns in characters.

Lines end in a plain newline only; form feeds and Unicode separators are ordinary characters to the compiler.
"""

from __future__ import annotations

from assayd.model.text_limits import SNIPPET_CHARS, shorten


def line_of(text: str, index: int) -> int:
    """Return the 1-based line that holds the character at `index`."""
    return text.count("\n", 0, index) + 1


def line_at(text: str, line: int | None) -> str | None:
    """Return a line without its line end, or None."""
    if line is None or not 1 <= line <= len(text) + 1:
        return None
    lines = text.split("\n", line)
    return lines[line - 1] if line <= len(lines) else None


def snippet(text: str, line: int | None) -> str | None:
    """Return a line, cut to a bounded length, or None."""
    found = line_at(text, line)
    return None if found is None else shorten(found.rstrip(), SNIPPET_CHARS)


def column_of(line: str, byte_offset: int) -> int:
    """Turn a 0-based offset in UTF-8 bytes into a 1-based column in characters."""
    return len(line.encode("utf-8")[:byte_offset].decode("utf-8", "ignore")) + 1
