"""Creates diagnostics and quick fixes from a finished attempt. Performs no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lsprotocol import types

from assayd_client import Document
from assayd_client.cli.report import SubmissionOrigin, find_name_end
from assayd_client.cli.terminal import plain, shorten

MAX_TITLE_CODE_CHARS = 60
"""Maximum number of characters of code in a title."""


class LineMapping:
    """A mapping from a file's line numbers to those of a later version, outside the changed lines."""

    def __init__(self, before: str, now: str) -> None:
        old, new = before.split("\n"), now.split("\n")
        most = min(len(old), len(new))
        self._old = len(old)
        self._same = before == now
        self._head = _count_common_prefix(old, new, most)
        self._tail = _count_common_prefix(old[::-1], new[::-1], most - self._head)
        self._shift = len(new) - len(old)

    def get_range_shift(self, first: int, after: int) -> int | None:
        """Return the number of lines by which a range has moved, or None if it contains a changed line."""
        inserts = first == after
        if self._same or after + inserts <= self._head:
            return 0
        return self._shift if first - inserts >= self._old - self._tail else None

    def edit(self, edit: Any) -> Any | None:
        """Return an edit of whole lines at its position in the later text, or None if this is uncertain."""
        first, after = edit.range.start.line, edit.range.end.line
        by = self.get_range_shift(first, after)
        return by if by is None else types.TextEdit(build_line_range(first + by, after + by), edit.new_text)

    def line(self, number: int) -> int:
        """Return the new number of a line. The number of a changed line stays the same."""
        return number + self._shift if number >= self._old - self._tail else number


def build_line_range(first: int, after: int) -> Any:
    """Return the range from the start of one line to the start of another line."""
    return types.Range(start=types.Position(first, 0), end=types.Position(after, 0))


def describe_edits(edits: Sequence[Any], now: str) -> str:
    """Return a one-line description of edits that fits in an editor's menu."""
    if len(edits) > 1:
        return f"Change {len(edits)} places"
    (edit,) = edits
    first, after = edit.range.start.line, edit.range.end.line
    old, new = now.split("\n")[first:after], edit.new_text.removesuffix("\n").split("\n")
    if not edit.new_text:
        return f"Remove {_format_line_range(first, after)}"
    if not old:
        what = _quote_code(new[0]) if len(new) == 1 else f"{len(new)} lines"
        return f"Insert {what} before line {first + 1}"
    if len(old) == len(new) == 1:
        return _describe_change(old[0], new[0], first + 1)
    return f"Replace {_format_line_range(first, after)}"


def _describe_change(old: str, new: str, number: int) -> str:
    """Describe a changed line by its added or removed part, or by the complete new line."""
    head = _count_common_prefix(old, new, min(len(old), len(new)))
    tail = _count_common_prefix(old[::-1], new[::-1], min(len(old), len(new)) - head)
    added, removed = new[head : len(new) - tail], old[head : len(old) - tail]
    at_end = (
        f" at the end of line {number}" if not old[head + len(removed) :].strip() else f" in line {number}"
    )
    if added.strip() and not removed:
        return f"Add {_quote_code(added)}{at_end}"
    if removed.strip() and not added:
        return f"Remove {_quote_code(removed)}{at_end}"
    return f"Change line {number} to {_quote_code(new)}"


def _format_line_range(first: int, after: int) -> str:
    return f"line {first + 1}" if after == first + 1 else f"lines {first + 1} to {after}"


def _quote_code(text: str) -> str:
    return f"'{shorten(text, MAX_TITLE_CODE_CHARS)}'"


def _count_common_prefix(one: Sequence[str], other: Sequence[str], most: int) -> int:
    """Return the length of the common prefix of two sequences, at most `most`."""
    return next((place for place in range(most) if one[place] != other[place]), most)


SOURCE = "assayd"
LSP_SEVERITY_BY_NAME = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}
MESSAGE_CHARS = 2000
FIRST_LINE_RANGE = build_line_range(0, 1)
"""The range of findings without a location; most editors don't display an empty range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedDiagnostic:
    """A diagnostic in a file, with the certain edits that fix it in the validated text."""

    path: Path
    diagnostic: Any
    edits: tuple[Any, ...] = ()
    text: str = ""
    ran: bool = False
    """Whether a run found the fault, which the static stages can't find again."""


def build_diagnostics(
    report: Document, origin: SubmissionOrigin, main: Path, pages: Mapping[str, str]
) -> list[LocatedDiagnostic]:
    """Return the findings of a report or a static check as diagnostics.

    Findings without a location are placed on line 1 of `main`. `pages` maps each rule to the address of its
    page.
    """
    hints = report.get("fix_hints") or []
    return [
        _build_diagnostic(finding, hints, origin, main, pages) for finding in report.get("findings") or []
    ]


def filter_unchanged_diagnostics(
    before: Sequence[LocatedDiagnostic], origin: SubmissionOrigin
) -> list[LocatedDiagnostic]:
    """Return an earlier run's diagnostics on unchanged lines, moved to the new line numbers."""
    kept = []
    for each in before:
        place, now = each.diagnostic.range, _get_submitted_text(each.path, origin)
        moved = LineMapping(each.text, now)
        by = moved.get_range_shift(place.start.line, place.end.line + (place.end.character > 0))
        if each.ran and by is not None:
            start, end = (types.Position(at.line + by, at.character) for at in (place.start, place.end))
            edits = [moved.edit(edit) for edit in each.edits]
            diagnostic = copy(each.diagnostic)
            diagnostic.range = types.Range(start, end)
            certain = () if None in edits else tuple(edits)
            kept.append(replace(each, diagnostic=diagnostic, edits=certain, text=now))
    return kept


def build_warning(path: Path, said: str) -> LocatedDiagnostic:
    """Return a warning on the first line about an error that the code didn't cause."""
    diagnostic = types.Diagnostic(
        range=FIRST_LINE_RANGE,
        message=plain(said)[:MESSAGE_CHARS],
        severity=types.DiagnosticSeverity.Warning,
        source=SOURCE,
    )
    return LocatedDiagnostic(path=path, diagnostic=diagnostic)


def _build_diagnostic(
    finding: Document,
    hints: Sequence[Document],
    origin: SubmissionOrigin,
    main: Path,
    pages: Mapping[str, str],
) -> LocatedDiagnostic:
    name, number = origin.locate_finding(finding)
    path = Path(name) if name is not None and Path(name).is_absolute() else main
    text = _get_submitted_text(path, origin)
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    said = finding["message"].replace("\n", "\n    ")
    if finding["suggestion"]:
        said += f"\n{finding['suggestion']}"
    page = pages.get(finding["rule"])
    diagnostic = types.Diagnostic(
        range=_find_range(finding, number, lines),
        message=plain(said)[:MESSAGE_CHARS],
        severity=LSP_SEVERITY_BY_NAME[finding["severity"]],
        code=finding["rule"],
        code_description=types.CodeDescription(page) if page else None,
        source=SOURCE,
    )
    found = LocatedDiagnostic(path=path, diagnostic=diagnostic, text=text, ran=finding["layer"] == "runtime")
    if number is None or finding["line"] is None:
        return found
    moved = number - finding["line"]
    edits = [
        _to_text_edit(hint["edit"], moved) for hint in hints if hint["edit"] and _is_hint_for(hint, finding)
    ]
    return replace(found, edits=tuple(edits))


def _is_hint_for(hint: Mapping[str, Any], finding: Mapping[str, Any]) -> bool:
    return all(hint[name] == finding[name] for name in ("rule", "file", "line", "message"))


def _get_submitted_text(path: Path, origin: SubmissionOrigin) -> str:
    names = [name for name, shown in origin.paths.items() if shown == str(path)]
    return origin.texts[names[0]].decode("utf-8", "replace") if names else ""


def _find_range(finding: Document, number: int | None, lines: Sequence[str]) -> Any:
    """Return the range of a finding: the name at its column, or its lines without indentation."""
    if number is None or number > len(lines):
        return FIRST_LINE_RANGE
    first = number - 1
    text = lines[first]
    if finding["column"]:
        begin = max(
            min(finding["column"] - 1, len(text) - 1), 0
        )  # text is missing at the end: mark the last letter
        return _to_range(first, text, begin, first, min(find_name_end(text, begin), len(text)))
    last = min(first + max(0, (finding["end_line"] or finding["line"]) - finding["line"]), len(lines) - 1)
    return _to_range(first, text, len(text) - len(text.lstrip()), last, len(lines[last]), lines[last])


def _to_range(first: int, text: str, begin: int, last: int, end: int, ending: str | None = None) -> Any:
    return types.Range(
        start=types.Position(first, count_utf16_units(text[:begin])),
        end=types.Position(last, count_utf16_units((text if ending is None else ending)[:end])),
    )


def count_utf16_units(text: str) -> int:
    """Return the length of a string in UTF-16 code units, the unit that editors use."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _to_text_edit(edit: Document, moved: int) -> Any:
    text = edit["replacement"]
    whole = text if not text or text.endswith("\n") else text + "\n"
    return types.TextEdit(
        range=build_line_range(edit["start_line"] - 1 + moved, edit["end_line"] + moved), new_text=whole
    )
