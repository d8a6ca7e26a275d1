"""Positions and lines in a source: snippets, columns, and the corrected line of a hint.

Columns are counted in characters.

Only LF ends a line; for the compiler, form feeds and Unicode separators are ordinary characters.

`add_correction` adds the corrected line to a hint, for readers who see only the hints and not the edits:

    Remove the comma.    ->    Remove the comma. Write `SELECT a, b FROM t`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from assayd.model.finding import Finding
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
    """Return a line without its line end, or None if the line doesn't exist."""
    if line is None or not 1 <= line <= len(text) + 1:
        return None
    lines = text.lines if isinstance(text, SplitText) else text.split("\n", line)
    return lines[line - 1] if line <= len(lines) else None


def get_snippet(text: str, line: int | None) -> str | None:
    """Return a line without trailing white space, truncated if long, or None if it doesn't exist."""
    found = get_line(text, line)
    return None if found is None else shorten_text(found.rstrip(), SNIPPET_CHARS)


def byte_offset_to_column(line: str, byte_offset: int) -> int:
    """Convert a 0-based offset in UTF-8 bytes to a 1-based column in characters."""
    return len(line.encode("utf-8")[:byte_offset].decode("utf-8", "ignore")) + 1


_LINE_CHARS = 110
_MAX_HINT_CHARS = 240


def add_correction(finding: Finding, text: str) -> Finding:
    """Return the finding with the corrected line in its hint, if its edit replaces one line.

    The hint is unchanged if it already shows the correction, or if the line is too long for it.

    Args:
        finding: a finding, which can have an edit.
        text: the text to which the edit applies.
    """
    edit = finding.edit
    old = get_line(text, edit.start_line) if edit is not None else None
    if edit is None or old is None or edit.start_line != edit.end_line:
        return finding
    new = edit.replacement.strip()
    hint = finding.suggestion or ""
    if not new or "\n" in new or "`" in new or len(new) > _LINE_CHARS or _is_shown(old, new, hint):
        return finding
    longer = f"{hint} Write `{new}`.".strip()
    return finding if len(longer) > _MAX_HINT_CHARS else replace(finding, suggestion=longer)


def _is_shown(old: str, new: str, hint: str) -> bool:
    """Return whether a hint contains the new line, or the whole part changed by the edit."""
    if new in hint:
        return True
    before, after = old.split(), new.split()
    while before and after and before[0] == after[0]:
        before, after = before[1:], after[1:]
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    part = " ".join(after).strip(";,")
    return len(part) > 1 and part in hint
