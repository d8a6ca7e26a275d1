"""Walks the files of a folder in a fixed order, without following symbolic links.

In each folder, the names are sorted by their bytes, so that a walk can continue after a given path. Paths
with problems are reported. The memory contains only the names in the folders from the root to the current
folder, not all names in the tree.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assayd.model.text_limits import SAMPLE_PATH_CHARS

Parts = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file, or a path that can't be read or submitted, together with an error code and a message."""

    path: str
    code: str | None = None
    message: str = ""


@dataclass(slots=True)
class TreeWalk:
    """A walk of a folder's files. `links` is the number of symbolic links that were skipped."""

    tree: Path
    links: int = 0

    def files(self, after: str | None = None) -> Iterator[FoundFile]:
        """Yield every file in order, or only the files that follow the path `after` of an earlier walk."""
        yield from self._walk_below(str(self.tree), None if after is None else self._split_path(after))

    def _split_path(self, path: str) -> Parts:
        inner = os.fsencode(path).removeprefix(os.fsencode(str(self.tree))).lstrip(b"/")
        return tuple(inner.split(b"/"))

    def _walk_below(self, top: str, after: Parts | None) -> Iterator[FoundFile]:
        waiting: list[tuple[str, Parts | None, bool]] = [(top, after, True)]
        while waiting:
            path, rest, is_folder = waiting.pop()
            if not is_folder:
                yield _check_path(path)
                continue
            try:
                inner = self._list_sorted_entries(path, rest)
            except OSError as error:
                yield FoundFile(path, "folder.unreadable", error.strerror or "unreadable")
                continue
            waiting += reversed(inner)

    def _list_sorted_entries(self, folder: str, after: Parts | None) -> list[tuple[str, Parts | None, bool]]:
        """Return the entries of a folder in order, without those that an earlier walk has covered."""
        found = []
        with os.scandir(folder) as entries:
            named = sorted((os.fsencode(entry.name), entry) for entry in entries)
        for name, entry in named:
            if entry.is_symlink():
                self.links += 1
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            rest = None
            if after:
                if name < after[0] or (name == after[0] and not (is_folder and len(after) > 1)):
                    continue
                rest = after[1:] if name == after[0] else None
            found.append((entry.path, rest, is_folder))
        return found


def _check_path(path: str) -> FoundFile:
    if any("\ud800" <= character <= "\udfff" for character in path):
        return FoundFile(path, "path.not_utf8", "the name isn't valid UTF-8")
    if len(path) > SAMPLE_PATH_CHARS:
        message = f"the path has {len(path)} characters; the limit is {SAMPLE_PATH_CHARS}"
        return FoundFile(path, "path.too_long", message)
    return FoundFile(path)
