"""Collects declared outputs: the files that leave the container, and the reasons for omitted files.

This module runs once all children have exited. Since the guest controls names and files, both are checked
and capped.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import time

from .substitutes import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_FOLDER_DEPTH = 16
_MAX_ENTRIES = 20_000
_MAX_REASONS = 100
_MAX_REASON_CHARS = 24 * 1024
"""Maximum characters of all reasons; when escaped, they still fit into one frame's header."""
_MAX_PATHNAME_BYTES = 1024
_TIME_LIMIT_S = 10.0
_MAX_PIECE_BYTES = 2**18


class OutputChunk(Value):
    """A part of an output file. `truncated` is True if the whole file didn't fit."""

    path: str
    content: bytes
    append: bool
    truncated: bool


class OutputCollector:
    """A collector that searches the work directory once for declared outputs.

    Args:
        root: the descriptor of the work directory.
        patterns: relative paths; ``*``, ``?`` and ``[…]`` match within a name, and ``**`` as a whole name
            matches any number of directories. If a pattern begins with ``!``, files that match it aren't
            collected.
        max_files: the maximum number of files.
        max_bytes: the maximum number of bytes of all files.
        known: the contents of files by path; a file isn't collected if it still has this content.
    """

    def __init__(
        self,
        root: int,
        patterns: tuple[str, ...],
        *,
        max_files: int,
        max_bytes: int,
        known: Mapping[str, bytes | bytearray],
    ) -> None:
        self.dropped: list[str] = []
        self._root = root
        self._known = known
        self._wanted = [_PathPattern(pattern) for pattern in patterns if not pattern.startswith("!")]
        self._unwanted = [_PathPattern(pattern[1:]) for pattern in patterns if pattern.startswith("!")]
        self._files_left = max_files
        self._bytes_left = max_bytes
        self._entries_left = _MAX_ENTRIES
        self._reason_chars_left = _MAX_REASON_CHARS
        self._end = time.monotonic() + _TIME_LIMIT_S

    def collect(self) -> Iterator[OutputChunk]:
        """Yield the files that match, sorted by name, piece by piece.

        Files that can't be collected are listed, with the reason, in `dropped`.
        """
        if self._wanted:
            os.fchmod(self._root, 0o700)
            yield from self._walk(os.dup(self._root), "", 0)

    def _walk(self, folder: int, prefix: str, depth: int) -> Iterator[OutputChunk]:
        """Yield the outputs in one directory, and close its descriptor."""
        try:
            for name in sorted(os.listdir(folder)):
                if not self._can_continue(prefix):
                    return
                yield from self._collect_entry(folder, name, prefix + name, depth)
        finally:
            os.close(folder)

    def _collect_entry(self, folder: int, name: str, path: str, depth: int) -> Iterator[OutputChunk]:
        mode = os.lstat(name, dir_fd=folder).st_mode
        if stat.S_ISDIR(mode):
            if depth >= _MAX_FOLDER_DEPTH:
                self._record_dropped(path, "is too deep")
                return
            os.chmod(name, 0o700, dir_fd=folder)
            yield from self._walk(os.open(name, _DIRECTORY, dir_fd=folder), f"{path}/", depth + 1)
        elif self._is_wanted(path) and not (stat.S_ISREG(mode) and self._is_unchanged(folder, name, path)):
            if (problem := self._find_problem(path, mode)) is not None:
                self._record_dropped(path, problem)
            else:
                yield from self._read_pieces(folder, name, path)

    def _is_wanted(self, path: str) -> bool:
        if any(pattern.matches(path) for pattern in self._unwanted):
            return False
        return any(pattern.matches(path) for pattern in self._wanted)

    def _is_unchanged(self, folder: int, name: str, path: str) -> bool:
        """Return whether a regular file still has the content with which it was staged."""
        staged = self._known.get(path)
        if staged is None:
            return False
        os.chmod(name, 0o600, dir_fd=folder)
        with open(os.open(name, _FILE, dir_fd=folder), "rb") as stream:
            return os.fstat(stream.fileno()).st_size == len(staged) and stream.read(len(staged)) == staged

    def _find_problem(self, path: str, mode: int) -> str | None:
        if not stat.S_ISREG(mode):
            return "is not a regular file"
        if not path.isprintable() or len(os.fsencode(path)) > _MAX_PATHNAME_BYTES:
            return "has a name that is not plain text"
        if self._files_left <= 0:
            return "is one file too many"
        return None

    def _read_pieces(self, folder: int, name: str, path: str) -> Iterator[OutputChunk]:
        """Yield a file in pieces.

        Truncate it if it exceeds the remaining number of bytes, even if it is sparse.
        """
        os.chmod(name, 0o600, dir_fd=folder)
        with open(os.open(name, _FILE, dir_fd=folder), "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            wanted = min(size, self._bytes_left)
            self._files_left -= 1
            self._bytes_left -= wanted
            for start in range(0, max(wanted, 1), _MAX_PIECE_BYTES):
                content = stream.read(min(wanted - start, _MAX_PIECE_BYTES))
                yield OutputChunk(path=path, content=content, append=start > 0, truncated=wanted < size)

    def _can_continue(self, prefix: str) -> bool:
        self._entries_left -= 1
        if self._entries_left < 0 or time.monotonic() > self._end:
            self._record_dropped(prefix or ".", "was not searched to its end: too many files")
            return False
        return True

    def _record_dropped(self, path: str, reason: str) -> None:
        said = f"{path[:200]!a} {reason}"
        self._reason_chars_left -= len(said)
        if len(self.dropped) < _MAX_REASONS and self._reason_chars_left >= 0:
            self.dropped.append(said)


class _PathPattern:
    """A declared path, split into its parts. The part ``**`` matches any number of directories.

    All alternatives are followed at once, so that matching is never slow, regardless of the pattern.
    """

    def __init__(self, pattern: str) -> None:
        parts = pattern.split("/")
        self._parts = [None if part == "**" else re.compile(fnmatch.translate(part)) for part in parts]

    def matches(self, path: str) -> bool:
        """Return whether the pattern matches the whole path."""
        reached = self._expand_wildcards({0})
        for name in path.split("/"):
            reached = self._expand_wildcards(
                {at for position in reached for at in self._match_step(position, name)}
            )
        return len(self._parts) in reached

    def _match_step(self, position: int, name: str) -> Iterator[int]:
        if position < len(self._parts):
            part = self._parts[position]
            if part is None:
                yield position
            elif part.match(name):
                yield position + 1

    def _expand_wildcards(self, positions: set[int]) -> set[int]:
        reached = set(positions)
        for position in positions:
            while position < len(self._parts) and self._parts[position] is None:
                position += 1  # noqa: PLW2901 - walks on from where the loop stands
                reached.add(position)
        return reached
