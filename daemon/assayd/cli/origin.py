"""Where a finding is in the files that were named on the command line.

Lines of a finding count in the text as it was checked. Where that is part of a file only, as with the answer
of a model that has code between its words, the finding's own line is looked up in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from assayd.client import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The files of a submission: paths as they were named, and texts, by the names that were sent."""

    paths: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, bytes] = field(default_factory=dict)

    def place(self, finding: Document) -> tuple[str | None, int | None]:
        """Return ``FILE:LINE`` of a finding, as far as it is known, and the number of its first line."""
        shown, number = self.found(finding)
        if shown is None or number is None:
            return shown, finding["line"]
        return f"{shown}:{number}", number

    def found(self, finding: Document) -> tuple[str | None, int | None]:
        """Return file and line of a finding, each None where it cannot be told."""
        name, number = self._name(finding), finding["line"]
        if name is None:
            return finding["file"], number
        return self.paths[name], _found(self.texts[name], number, finding["snippet"])

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
    wanted = snippet.split("\n", 1)[0].strip()
    lines = [line.strip() for line in text.decode("utf-8", "replace").splitlines()]
    if number <= len(lines) and lines[number - 1] == wanted:
        return number
    same = [place for place, line in enumerate(lines, 1) if line == wanted]
    return same[0] if len(same) == 1 else None


def _has(text: bytes, number: int | None, snippet: str | None) -> bool:
    return bool(snippet) and _found(text, number, snippet) is not None
