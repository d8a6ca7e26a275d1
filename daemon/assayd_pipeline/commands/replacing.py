"""Replaces the content of databases in place, and files by renaming, and makes backups of both.

A database is replaced through SQLite's backup API, in one transaction under SQLite's own lock. Therefore,
programs that have the database open continue with the new content, and a crash leaves either the old or the
new content.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath

from assayd.errors import RequestError, StoreError
from assayd_client.cli.texts import to_safe_path

Checkpoint = Callable[[str], None]
"""Called at each step of a commit or rollback, for use in tests."""

BUSY_S = 5.0
_WAL, _PLAIN = b"\x02\x02", b"\x01\x01"
# Journal mode, change counter, schema cookie, and the last writer's version, which a backup increments.
_COUNTERS = ((18, 20), (24, 28), (40, 44), (92, 100))


@contextmanager
def lock_database(database: Path) -> Iterator[sqlite3.Connection]:
    """Open a database and lock it against other readers and writers.

    Raises: RequestError ``commit.refused``.
    """
    if not database.is_file():
        raise refusal_error(f"{database} doesn't exist, or was deleted after the submission")
    with closing(
        sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=BUSY_S)
    ) as connection:
        # The lock outlives the transaction, so that nothing can change between the check and the replacement.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as problem:
            raise refusal_error(f"{database} can't be locked: {problem}") from None
        yield connection


@contextmanager
def open_in_memory(content: bytes) -> Iterator[sqlite3.Connection]:
    """Open a database in memory."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.deserialize(to_rollback_mode(content))
        connection.execute("PRAGMA trusted_schema = OFF")
        yield connection


def to_rollback_mode(content: bytes) -> bytes:
    """Return a copy of a WAL-mode database in rollback mode, which in-memory databases require."""
    return content[:18] + _PLAIN + content[20:] if content[18:20] == _WAL else content


def has_same_content(one: bytes, other: bytes) -> bool:
    """Return whether two databases have equal content, apart from their counters."""
    return clear_counters(one) == clear_counters(other)


def compute_content_digest(content: bytes) -> str:
    """Return the digest of a database's content without its counters."""
    return compute_digest(clear_counters(content))


def clear_counters(content: bytes) -> bytes:
    """Return a database with its counters set to zero."""
    bare = bytearray(content)
    for start, end in _COUNTERS:
        bare[start:end] = bytes(end - start)
    return bytes(bare)


def compute_digest(content: bytes) -> str:
    """Return the SHA-256 digest of content."""
    return hashlib.sha256(content).hexdigest()


def build_auxiliary_path(path: Path, attempt_id: str, what: str) -> Path:
    """Return the path of an auxiliary file next to a changed file."""
    return path.with_name(f"{path.name}.{attempt_id}.{what}")


def resolve_inside(root: Path, name: str) -> Path:
    """Return the path of a file within a folder.

    Raises: RequestError ``commit.refused``, if a link leads out of the folder.
    """
    path = root / to_safe_path(name)
    if path.is_symlink() or not path.parent.resolve().is_relative_to(root):
        raise refusal_error(f"{path} is outside {root}")
    return path


def describe_hidden_file(name: str) -> str:
    """Return a note for a hidden file, which doesn't appear in listings of its folder."""
    return " (hidden)" if any(part.startswith(".") for part in PurePosixPath(name).parts) else ""


def read_regular_file(path: Path) -> bytes:
    """Return the content of a regular file; links aren't followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise refusal_error(f"{path} isn't a regular file")
        return stream.read()


def read_if_exists(path: Path) -> bytes | None:
    """Return the content of a regular file, or None if the file doesn't exist."""
    try:
        return read_regular_file(path)
    except FileNotFoundError:
        return None


def write_atomically(path: Path, content: bytes, *, like: Path | None = None) -> None:
    """Write a file durably and atomically, with the permissions of another file."""
    draft = path.with_name(f"{path.name}.draft")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        if like is not None and like.exists():
            os.fchmod(descriptor, like.stat().st_mode & 0o777)
        stream.write(content)
        stream.flush()
        os.fsync(descriptor)
    draft.replace(path)
    flush_folder(path.parent)


def rename_durably(path: Path, target: Path) -> None:
    """Rename a file durably, replacing an existing file."""
    path.replace(target)
    flush_folder(target.parent)


def flush_folder(folder: Path) -> None:
    """Flush the entries of a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refusal_error(why: str) -> RequestError:
    """Return the error for a commit or rollback that is rejected before any change."""
    return RequestError("commit.refused", f"nothing was changed: {why}")


@contextmanager
def translate_errors(database: Path, action: str) -> Iterator[None]:
    """Translate errors of SQLite and the file system into StoreError ``commit.failed``."""
    try:
        yield
    except sqlite3.Error as problem:
        raise StoreError("commit.failed", f"{database}: {problem}; run the {action} again") from problem
    except OSError as problem:
        message = f"{problem.filename}: {problem.strerror}; run the {action} again"
        raise StoreError("commit.failed", message) from problem
