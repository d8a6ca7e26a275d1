"""Apply what a validated pipeline attempt came to: its database and its changed files.

Nothing is changed unless everything still is as it was submitted. The database is replaced in place by
SQLite's backup, in one transaction under its own lock, so that whoever has it open goes on with the new
content; files are replaced by renaming. Each thing that is replaced is kept beside it as a backup. A commit
that was interrupted is completed by running it again: what is done already is left alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from assayd.cli.artifacts import safe_name
from assayd.client import Document, PlainClient
from assayd.errors import RequestError, StoreError
from assayd.model.run import DATABASE_OUTPUT

FILES = "files/"
BUSY_S = 5.0
_WAL, _PLAIN = b"\x02\x02", b"\x01\x01"
# Journal mode, change counter, schema cookie, and the version that wrote last: a backup counts them on.
_COUNTERS = ((18, 20), (24, 28), (40, 44), (92, 100))

Checkpoint = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What an attempt was given and what it came to. `base_database` is None when it began without one."""

    attempt_id: str
    base_files: Mapping[str, bytes]
    new_files: Mapping[str, bytes]
    base_database: bytes | None
    new_database: bytes | None


@dataclass(frozen=True, slots=True)
class _Change:
    """One file that is to become another; `base` is None when there must be none yet."""

    path: Path
    base: bytes | None
    new: bytes


def read_result(client: PlainClient, attempt_id: str) -> Result:
    """Fetch what an attempt was given and came to.

    Raises: RequestError ``commit.refused``; StoreError ``artifact.damaged``.
    """
    attempt = client.attempt(attempt_id)
    if attempt["kind"] != "pipeline":
        raise _refused(f"{attempt_id} is a {attempt['kind']}, not a pipeline")
    if attempt["verdict"] != "validated":
        raise _refused(f"{attempt_id} is {attempt['verdict'] or attempt['state']}, not validated")
    [document] = [one for one in attempt["artifacts"] if one["name"].startswith("submission_")]
    payload = json.loads(_fetch(client, attempt_id, document))["payload"]
    given = payload.get("database") or {}
    if given.get("schema_sql") is not None:
        raise _refused("it ran on a schema, not on a database; submit the database itself as base64")
    outputs = {
        one["name"].removeprefix(FILES): _fetch(client, attempt_id, one)
        for one in attempt["artifacts"]
        if one["name"].startswith(FILES)
    }
    return Result(
        attempt_id=attempt_id,
        base_files={path: _content(value) for path, value in (payload.get("files") or {}).items()},
        new_database=outputs.pop(DATABASE_OUTPUT, None),
        new_files=outputs,
        base_database=b64decode(given["base64"]) if given.get("base64") is not None else None,
    )


def apply(
    result: Result, database: Path, directory: Path | None, checkpoint: Checkpoint = lambda _: None
) -> list[str]:
    """Apply a result; return a line for each thing that was done.

    Args:
        result: from `read_result`.
        database: the real database.
        directory: the real folder that the attempt's files came from; needed when some were changed.
        checkpoint: told of each step, for tests.

    Raises: RequestError ``commit.refused``, before anything was changed; StoreError ``commit.failed``.
    """
    try:
        database = database.resolve()
        if result.base_database is not None:
            with _locked(database) as connection:
                due = _is_database_due(result, connection, database)
                files = _stage(result, _changes(result, directory))
                checkpoint("staged")
                told = [_replace_database(result, connection, database, checkpoint)] if due else []
                return told + _place(result, files, checkpoint)
        created = [] if result.new_database is None else [_Change(database, None, result.new_database)]
        files = _stage(result, [*created, *_changes(result, directory)])
        checkpoint("staged")
        return _place(result, files, checkpoint)
    except sqlite3.Error as problem:
        raise StoreError("commit.failed", f"{database}: {problem}; run the commit again") from problem
    except OSError as problem:
        message = f"{problem.filename}: {problem.strerror}; run the commit again"
        raise StoreError("commit.failed", message) from problem


def _changes(result: Result, directory: Path | None) -> list[_Change]:
    """Return all files that were submitted or changed, each as it was and as it is to be.

    Raises: RequestError ``commit.refused``.
    """
    if directory is None:
        if result.new_files:
            raise _refused(
                f"it changed {', '.join(sorted(result.new_files))}; name the folder by --directory"
            )
        return []
    root = directory.resolve()
    changes = []
    for name in sorted(result.base_files.keys() | result.new_files.keys()):
        path = root / safe_name(name)
        if path.is_symlink() or not path.parent.resolve().is_relative_to(root):
            raise _refused(f"{path} leads out of {root}")
        base, new = result.base_files.get(name), result.new_files.get(name)
        changes.append(_Change(path, base, new if new is not None else base or b""))
    return changes


def _is_due(change: _Change) -> bool:
    """Return whether a file is still to be replaced; False when it is as it is to be."""
    current = change.path.read_bytes() if change.path.exists() else None
    if current == change.new:
        return False
    if current == change.base:
        return True
    if change.base is None:
        raise _refused(f"{change.path} exists, and the attempt began without it")
    why = "is gone" if current is None else "has changed"
    raise _refused(
        f"{change.path} {why} since it was submitted (digest {_digest(change.base)[:12]} expected)"
    )


def _stage(result: Result, changes: list[_Change]) -> list[_Change]:
    """See that every file is as it was, then write new ones and backups beside them; return what is due.

    Raises: RequestError ``commit.refused``, before anything was written.
    """
    due = [change for change in changes if _is_due(change)]
    for change in due:
        change.path.parent.mkdir(parents=True, exist_ok=True)
        if change.base is not None:
            _write(_beside(change.path, result, "backup"), change.base, like=change.path)
        _write(_beside(change.path, result, "new"), change.new, like=change.path)
    return due


def _place(result: Result, due: list[_Change], checkpoint: Checkpoint) -> list[str]:
    """Put each file in its place; what was there is in its backup."""
    told = []
    for change in due:
        _beside(change.path, result, "new").replace(change.path)
        _sync(change.path.parent)
        checkpoint("file")
        backup = _beside(change.path, result, "backup").name
        told.append(
            f"{change.path}: " + (f"replaced; backup: {backup}" if change.base is not None else "created")
        )
    return told


@contextmanager
def _locked(database: Path) -> Iterator[sqlite3.Connection]:
    """Open a database so that nobody else reads or writes it until the end.

    Raises: RequestError ``commit.refused``.
    """
    if not database.is_file():
        raise _refused(f"{database} is gone since it was submitted, or never was there")
    with closing(
        sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=BUSY_S)
    ) as connection:
        # The lock of a transaction is kept after its end, so there is no moment between look and change.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as problem:
            raise _refused(f"{database} cannot be locked: {problem}") from None
        yield connection


def _is_database_due(result: Result, connection: sqlite3.Connection, database: Path) -> bool:
    """Return whether the database is still to be replaced; False when it is as it is to be.

    Raises: RequestError ``commit.refused``.
    """
    current, base = connection.serialize(), result.base_database or b""
    if result.new_database is not None and _same(current, result.new_database):
        return False
    if _digest(current) != _digest(base):
        raise _refused(
            f"{database} has changed since it was submitted (digest {_digest(base)[:12]} expected)"
        )
    if result.new_database is None:
        return False
    with _opened(result.new_database) as source:
        (answer,) = source.execute("PRAGMA integrity_check(1)").fetchone()
    if answer != "ok":
        raise _refused(f"the resulting database is damaged: {answer}")
    return True


@contextmanager
def _opened(content: bytes) -> Iterator[sqlite3.Connection]:
    """Open a database in memory; one in write-ahead mode as a plain one, which is all that memory has."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.deserialize(content[:18] + _PLAIN + content[20:] if content[18:20] == _WAL else content)
        connection.execute("PRAGMA trusted_schema = OFF")
        yield connection


def _replace_database(
    result: Result, connection: sqlite3.Connection, database: Path, checkpoint: Checkpoint
) -> str:
    backup = _beside(database, result, "backup")
    _write(backup, connection.serialize(), like=database)
    checkpoint("backed_up")
    with _opened(result.new_database or b"") as source:
        source.backup(connection)
    checkpoint("database")
    return f"{database}: replaced; backup: {backup.name}"


def _same(one: bytes, other: bytes) -> bool:
    """Return whether two databases have the same content, whatever their counters say."""
    return _without_counters(one) == _without_counters(other)


def _without_counters(content: bytes) -> bytes:
    plain = bytearray(content)
    for start, end in _COUNTERS:
        plain[start:end] = bytes(end - start)
    return bytes(plain)


def _beside(path: Path, result: Result, what: str) -> Path:
    return path.with_name(f"{path.name}.{result.attempt_id}.{what}")


def _write(path: Path, content: bytes, *, like: Path | None = None) -> None:
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
    _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fetch(client: PlainClient, attempt_id: str, artifact: Document) -> bytes:
    if artifact["truncated"]:
        raise _refused(f"{artifact['name']} was kept in part only")
    content = client.artifact(attempt_id, artifact["name"])
    if _digest(content) != artifact["sha256"]:
        raise StoreError("artifact.damaged", f"{artifact['name']} is not what the daemon has recorded")
    return content


def _content(value: object) -> bytes:
    return b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _refused(why: str) -> RequestError:
    return RequestError("commit.refused", f"nothing was changed: {why}")
