"""The audit log: records every change and its author, as lines of JSON that form a hash chain.

Each line contains the SHA-256 of the preceding line, also across files, so that a changed, removed or
inserted line is detected. A user who can write to all files can create a new chain; therefore, keep copies on
another host. Lines contain paths, ids and users, but never source text.

The daemon writes the log. Commands that work without the daemon also add lines; a lock on the folder ensures
that each line continues the chain.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import structlog

from assayd.model.audit_chain import compute_line_digest, read_previous_digest, read_timestamp

log = structlog.get_logger()

FIRST_PREVIOUS_DIGEST = "0" * 64
"""The digest that the first line of a log contains instead of its predecessor's digest."""
FILE_BYTES = 16 * 2**20
FILES = 16
"""The number of files to keep. If there are more, the oldest is removed, and the chain begins with the next
file.
"""
FOLDER = "audit"
"""The folder of the log, below the state directory."""
_NAME_PATTERN = re.compile(r"audit-(\d{6,12})\.jsonl")
_MAX_SUBJECT_CHARS = 4096
_MAX_ADDED_BYTES = 2**20
_LOCK_RETRY_DELAYS_S = (0.001, 0.004, 0.02)
"""Pauses between tries: a writer holds the lock for less than a millisecond."""


class AuditLog:
    """The audit log in a folder, whose chain this process continues."""

    def __init__(self, folder: Path, *, file_bytes: int = FILE_BYTES, files: int = FILES) -> None:
        """Continue the chain in a folder. Raises: OSError, if the folder can't be used."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._file_bytes = file_bytes
        self._files = files
        numbers = [_parse_file_number(file) for file in list_log_files(folder)]
        self._opened = -1
        self._number = 0
        self._written = 0
        self._last = FIRST_PREVIOUS_DIGEST
        self._open_file(numbers[-1] if numbers else 1)

    def close(self) -> None:
        """Close the log. Afterwards, no lines can be written."""
        if self._opened >= 0:
            os.close(self._opened)
            self._opened = -1

    def note(self, action: str, *, actor: dict[str, object], subject: str, **details: object) -> bool:
        """Append one line, and return whether it was written. Errors such as a full disk are only logged."""
        entry = {"actor": actor, "action": action, "subject": subject[:_MAX_SUBJECT_CHARS], **details}
        try:
            with self._hold_lock():
                self._sync_with_other_writers()
                if self._written >= self._file_bytes:
                    self._rotate()
                at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                whole = {"at": at, **entry, "previous": self._last}
                line = json.dumps(whole, separators=(",", ":"), default=str).encode()
                self._append_line(line + b"\n")
        except OSError as problem:
            log.error("audit.not_written", action=action, problem=str(problem))
            return False
        self._written += len(line) + 1
        self._last = compute_line_digest(line)
        return True

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _lock_folder(folder)
            yield
        finally:
            os.close(folder)

    def _sync_with_other_writers(self) -> None:
        """Continue after lines that another process has added, if these continue this process's last line.

        If the added lines break the chain, this process's next line also breaks it, so that a verification
        detects the break. Another process may have begun a new file since this process opened its file.
        """
        newest = max(map(_parse_file_number, list_log_files(self._folder)), default=0)
        if newest > self._number:
            self._open_file(newest)
            return
        size = os.fstat(self._opened).st_size
        most = max(0, min(size - self._written, _MAX_ADDED_BYTES))
        for line in os.pread(self._opened, most, self._written).splitlines():
            if read_previous_digest(line) != self._last:
                break
            self._last = compute_line_digest(line)
        self._written = size

    def _append_line(self, line: bytes) -> None:
        """Append a whole line. Raises: OSError, if this fails; nothing is appended then."""
        if os.write(self._opened, line) < len(line):
            os.ftruncate(self._opened, self._written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def read(self, since: str = "") -> Iterator[bytes]:
        """Yield the lines since an ISO 8601 timestamp in chronological order, each with its line break.

        If `since` is empty, yield all lines.
        """
        for file in list_log_files(self._folder):
            with suppress(FileNotFoundError), file.open("rb") as opened:  # the oldest one, already deleted
                for line in opened:
                    if not since or read_timestamp(line) >= since:
                        yield line

    def _rotate(self) -> None:
        """Begin the next file. If too many files are kept, remove the oldest."""
        self._open_file(self._number + 1)
        for old in list_log_files(self._folder)[: -self._files]:
            old.unlink()

    def _open_file(self, number: int) -> None:
        """Open a file to continue it. Raises: OSError, if this fails; the previous file then stays open."""
        file = self._folder / f"audit-{number:06}.jsonl"
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        opened = os.open(file, flags, 0o600)
        try:
            content = file.read_bytes()
            if content and not content.endswith(b"\n"):  # the end of a line that a power failure truncated
                os.write(opened, b"\n")
                content += b"\n"
        except OSError:
            os.close(opened)
            raise
        self.close()
        self._opened, self._number = opened, number
        self._written = len(content)
        if content:
            self._last = compute_line_digest(content.splitlines()[-1])


def append_audit_line(
    folder: Path, action: str, *, actor: dict[str, object], subject: str, **details: object
) -> bool:
    """Add a line to a daemon's log from another process.

    Return False if the folder has no log or the line can't be written.

    Raises: OSError, if the log can't be opened.
    """
    if not folder.is_dir() or not list_log_files(folder):
        return False
    adding = AuditLog(folder, file_bytes=sys.maxsize)  # only the daemon creates files, as their owner
    try:
        return adding.note(action, actor=actor, subject=subject, **details)
    finally:
        adding.close()


def _lock_folder(folder: int) -> None:
    """Lock the folder against other writers.

    Raises: BlockingIOError, if others still hold the lock after a short timeout.
    """
    for pause_s in _LOCK_RETRY_DELAYS_S:
        with suppress(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(pause_s)
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)


def list_log_files(folder: Path) -> list[Path]:
    """Return the files of a log in chronological order."""
    return sorted(
        (file for file in folder.iterdir() if _NAME_PATTERN.fullmatch(file.name)), key=_parse_file_number
    )


def _parse_file_number(file: Path) -> int:
    found = _NAME_PATTERN.fullmatch(file.name)
    return int(found[1]) if found else 0
