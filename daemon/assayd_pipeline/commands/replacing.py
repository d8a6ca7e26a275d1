"""Replace a database's content in place, and files by renaming; what was there is kept beside them.

A database is replaced by SQLite's backup, in one transaction under its own lock, so that whoever has it open
goes on with the new content, and a crash leaves the one or the other.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath

from assayd.errors import RequestError
from assayd_client.cli.attempts import safe_name

BUSY_S = 5.0
_WAL, _PLAIN = b"\x02\x02", b"\x01\x01"
# Journal mode, change counter, schema cookie, and the version that wrote last: a backup counts them on.
_COUNTERS = ((18, 20), (24, 28), (40, 44), (92, 100))


@contextmanager
def locked(database: Path) -> Iterator[sqlite3.Connection]:
    """Open a database so that nobody else reads or writes it until the end.

    Raises: RequestError ``commit.refused``.
    """
    if not database.is_file():
        raise refused(f"{database} doesn't exist, or was deleted after the submission")
    with closing(
        sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=BUSY_S)
    ) as connection:
        # The lock of a transaction is kept after its end, so there is no moment between look and change.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as problem:
            raise refused(f"{database} can't be locked: {problem}") from None
        yield connection


@contextmanager
def opened(content: bytes) -> Iterator[sqlite3.Connection]:
    """Open a database in memory."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.deserialize(plain_mode(content))
        connection.execute("PRAGMA trusted_schema = OFF")
        yield connection


def plain_mode(content: bytes) -> bytes:
    """Return a database in write-ahead mode as a plain one, which is all that memory has."""
    return content[:18] + _PLAIN + content[20:] if content[18:20] == _WAL else content


def same(one: bytes, other: bytes) -> bool:
    """Return whether two databases have the same content, whatever their counters say."""
    return without_counters(one) == without_counters(other)


def content_digest(content: bytes) -> str:
    """Return the digest of a database's content, whatever its counters say."""
    return digest(without_counters(content))


def without_counters(content: bytes) -> bytes:
    """Return a database with nothing in the place of its counters."""
    bare = bytearray(content)
    for start, end in _COUNTERS:
        bare[start:end] = bytes(end - start)
    return bytes(bare)


def digest(content: bytes) -> str:
    """Return the SHA-256 of some content."""
    return hashlib.sha256(content).hexdigest()


def beside(path: Path, attempt_id: str, what: str) -> Path:
    """Name a file that lies beside one that an attempt changes."""
    return path.with_name(f"{path.name}.{attempt_id}.{what}")


def inside(root: Path, name: str) -> Path:
    """Return where a file of a folder lies.

    Raises: RequestError ``commit.refused``, if a link leads out of it.
    """
    path = root / safe_name(name)
    if path.is_symlink() or not path.parent.resolve().is_relative_to(root):
        raise refused(f"{path} is outside {root}")
    return path


def remark(name: str) -> str:
    """Return what is to be said of a file that a listing of its folder does not show."""
    return " (hidden)" if any(part.startswith(".") for part in PurePosixPath(name).parts) else ""


def read(path: Path) -> bytes:
    """Return a regular file's content, and nothing that a link names."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise refused(f"{path} isn't a regular file")
        return stream.read()


def write(path: Path, content: bytes, *, like: Path | None = None) -> None:
    """Write a file durably and whole, with the permissions of another one."""
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
    sync(path.parent)


def move(path: Path, target: Path) -> None:
    """Give a file another name durably, in the place of what has it."""
    path.replace(target)
    sync(target.parent)


def sync(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refused(why: str) -> RequestError:
    """Return the error that ends a commit or a rollback before anything was changed."""
    return RequestError("commit.refused", f"nothing was changed: {why}")
