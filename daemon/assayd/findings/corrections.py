"""Adds the corrected line to a hint, for readers who see only the hints and not the edits.

Remove the comma.    ->    Remove the comma. Write `SELECT a, b FROM t`.
"""

from __future__ import annotations

from dataclasses import replace

from assayd.findings.source_text import get_line
from assayd.model.finding import Finding

_LINE_CHARS = 110
_HINT_CHARS = 240


def add_correction(finding: Finding, text: str) -> Finding:
    """Return the finding; add the corrected line to its hint unless the hint already contains the line.

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
    return finding if len(longer) > _HINT_CHARS else replace(finding, suggestion=longer)


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
