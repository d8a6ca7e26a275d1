"""Quotes the end of what a program left on standard error, for reports, hints and further tries."""

from __future__ import annotations

from assayd.model.text_limits import shorten

_LINES = 5
_LINE_CHARS = 200


def last_lines(text: str) -> str | None:
    """Return the last lines of a text that are not blank, each cut to a fair length; or None."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()][-_LINES:]
    return "\n".join(shorten(line, _LINE_CHARS) for line in lines) or None


def quoted_end(text: str) -> str | None:
    """Return a sentence with the last lines of standard error; None when it is empty."""
    lines = last_lines(text)
    return None if lines is None else f"standard error ended with:\n{lines}"
