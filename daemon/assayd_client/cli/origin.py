"""Where a finding is in the files that were named on the command line.

Lines of a finding count in the text as it was checked. Where that is part of a file only, as with the answer
of a model that has code between its words, the finding's own line is looked up in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from assayd.model.text_limits import SNIPPET_CHARS
from assayd_client import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The files of a submission: paths as they were named, and texts, by the names that were sent."""

    paths: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, bytes] = field(default_factory=dict)

    def place(self, finding: Document) -> tuple[str | None, int | None]:
        """Return ``FILE:LINE:COLUMN`` of a finding, as far as it is known, and its first line's number."""
        shown, number = self.found(finding)
        if shown is None or number is None:
            return shown, finding["line"]
        column = "" if finding["column"] is None else f":{finding['column']}"
        return f"{shown}:{number}{column}", number

    def found(self, finding: Document) -> tuple[str | None, int | None]:
        """Return file and line of a finding, each None where it cannot be told."""
        name, number = self._name(finding), finding["line"]
        if name is None:
            return finding["file"], number
        return self.paths[name], _found(self.texts[name], number, finding["snippet"])

    def source(self, finding: Document) -> list[str]:
        """Return the lines that a finding shows; the first in full where the report has a part of it."""
        first, *others = (finding["snippet"] or "").rstrip("\n").split("\n")
        name = self._name(finding)
        if name is not None and (number := self.found(finding)[1]) is not None and is_cut(first):
            first = _lines(self.texts[name])[number - 1]
        return [first.removesuffix("\r"), *others]

    def _name(self, finding: Document) -> str | None:
        """Return under which name the file was sent that a finding speaks of: that name, or a part of it."""
        file = finding["file"]
        if file is None:
            return next(iter(self.paths)) if len(self.paths) == 1 else None
        if file in self.paths:
            return str(file)
        alike = [name for name in self.paths if file in {PurePath(name).name, PurePath(name).stem}]
        if len(alike) > 1:  # sales.sql beside sales.csv
            alike = [name for name in alike if _has(self.texts[name], finding["line"], finding["snippet"])]
        return alike[0] if len(alike) == 1 else None


UNKNOWN = Origin()
"""Of an attempt whose files are not at hand."""


def _found(text: bytes, number: int | None, snippet: str | None) -> int | None:
    """Return the line of a file that is a finding's; None where it cannot be told."""
    if number is None or not snippet:
        return number
    wanted = snippet.split("\n", 1)[0]
    lines = _lines(text)
    if number <= len(lines) and _is_shown_as(lines[number - 1], wanted):
        return number
    same = [place for place, line in enumerate(lines, 1) if _is_shown_as(line, wanted)]
    return same[0] if len(same) == 1 else None


def _lines(text: bytes) -> list[str]:
    """Return the lines of a text as findings count them: a form feed, for one, ends none."""
    return text.decode("utf-8", "replace").split("\n")


def _is_shown_as(line: str, snippet: str) -> bool:
    if is_cut(snippet):
        return line.strip().startswith(snippet[:-1].strip())
    return line.strip() == snippet.strip()


def is_cut(snippet: str) -> bool:
    """Return whether a snippet is the beginning of a line that was too long."""
    return len(snippet) == SNIPPET_CHARS and snippet.endswith("…")


def _has(text: bytes, number: int | None, snippet: str | None) -> bool:
    return bool(snippet) and _found(text, number, snippet) is not None
