"""The journal of a database's commits and rollbacks, their differences, and the replacement of files.

Keeps the journal of a database's commits and rollbacks as JSON lines in a file next to the database.

A `begun` line is written durably before the first change, and a `done` line after the last change.
Therefore, after a crash, the journal shows the interrupted operation, and repeating the operation completes
it.

Compares two states of a database, and counts the rows of each table that exist in only one of them.

Both states can be untrusted, so only ordinary tables are read, and a time limit applies.

Replaces the content of databases in place, and files by renaming, and makes backups of both.

A database is replaced through SQLite's backup API, in one transaction under SQLite's own lock. Therefore,
programs that have the database open continue with the new content, and a crash leaves either the old or the
new content.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pwd
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from assayd.errors import RequestError, StoreError
from assayd_client.cli.terminal import plain
from assayd_client.cli.texts import to_safe_path

Checkpoint = Callable[[str], None]
"""Called at each step of a commit or rollback, for use in tests."""

BUSY_S = 5.0
_WAL, _PLAIN = b"\x02\x02", b"\x01\x01"
# Journal mode, change counter, schema cookie, and the last writer's version, which a backup increments.
_COUNTER_RANGES = ((18, 20), (24, 28), (40, 44), (92, 100))
SUFFIX = ".commits.jsonl"
COMMIT, ROLLBACK = "commit", "rollback"
STATE_BEGUN, DONE = "begun", "done"
COMPARISON_TIMEOUT_S = 5.0
_STEPS = 10_000
_LIST_TABLES_SQL = (
    "SELECT name FROM {0}.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
    "AND sql NOT LIKE 'CREATE VIRTUAL%'"
)


@contextmanager
def lock_database(database: Path) -> Iterator[sqlite3.Connection]:
    """Open a database and lock it against other readers and writers.

    Raises: RequestError ``commit.refused``, if the database doesn't exist or can't be locked.
    """
    if not database.is_file():
        raise build_refusal_error(f"{database} doesn't exist, or was deleted after the submission")
    with closing(
        sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=BUSY_S)
    ) as connection:
        # The lock outlives the transaction, so that nothing can change between the check and the replacement.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as problem:
            raise build_refusal_error(f"{database} can't be locked: {problem}") from None
        yield connection


@contextmanager
def open_in_memory(content: bytes) -> Iterator[sqlite3.Connection]:
    """Open a copy of a database in memory while the body runs."""
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
    for start, end in _COUNTER_RANGES:
        bare[start:end] = bytes(end - start)
    return bytes(bare)


def compute_digest(content: bytes) -> str:
    """Return the SHA-256 digest of bytes in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def build_auxiliary_path(path: Path, attempt_id: str, what: str) -> Path:
    """Return the path of an auxiliary file next to a changed file."""
    return path.with_name(f"{path.name}.{attempt_id}.{what}")


def resolve_inside_folder(root: Path, name: str) -> Path:
    """Return the path of a file within a folder.

    Raises: RequestError ``commit.refused``, if a link leads out of the folder.
    """
    path = root / to_safe_path(name)
    if path.is_symlink() or not path.parent.resolve().is_relative_to(root):
        raise build_refusal_error(f"{path} is outside {root}")
    return path


def describe_hidden_file(name: str) -> str:
    """Return a note if a file is hidden, so that listings don't show it, or an empty string if it isn't."""
    return " (hidden)" if any(part.startswith(".") for part in PurePosixPath(name).parts) else ""


def read_regular_file(path: Path) -> bytes:
    """Return the content of a regular file. A link isn't followed.

    Raises: RequestError ``commit.refused``, if it isn't a regular file; OSError, if it can't be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise build_refusal_error(f"{path} isn't a regular file")
        return stream.read()


def read_if_exists(path: Path) -> bytes | None:
    """Return the content of a regular file, or None if the file doesn't exist."""
    try:
        return read_regular_file(path)
    except FileNotFoundError:
        return None


def write_atomically(path: Path, content: bytes, *, like: Path | None = None) -> None:
    """Write a file durably and atomically, with the permissions of `like` if it exists, otherwise 0600."""
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


def build_refusal_error(why: str) -> RequestError:
    """Return the error for a commit or rollback that is rejected before any change."""
    return RequestError("commit.refused", f"nothing was changed: {why}")


@contextmanager
def translate_errors(database: Path, action: str) -> Iterator[None]:
    """Raise StoreError ``commit.failed`` in place of an error of SQLite or the file system in the body."""
    try:
        yield
    except sqlite3.Error as problem:
        raise StoreError("commit.failed", f"{database}: {problem}; run the {action} again") from problem
    except OSError as problem:
        message = f"{problem.filename}: {problem.strerror}; run the {action} again"
        raise StoreError("commit.failed", message) from problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedObject:
    """An object (a file or the database) that a commit replaced.

    A digest is None if the object doesn't exist; a database's digest is computed without its counters.

    `name` is relative to the folder of the commit; `backup` is the name of the backup file in the object's
    folder.
    """

    name: str
    before: str | None
    after: str | None
    backup: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRecord:
    """A line of the journal. `name` is the library name with which the pipeline was requested, if any."""

    action: str
    state: str
    attempt_id: str
    name: str | None
    database: ReplacedObject | None
    files: tuple[ReplacedObject, ...]

    def matches_reference(self, reference: str) -> bool:
        """Return whether the record belongs to this attempt or this pipeline name."""
        return reference in {self.attempt_id, self.name}


class Journal:
    """The journal of one database, which is opened with an exclusive lock."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path

    def read_records(self) -> Sequence[JournalRecord]:
        """Return all records in the order of their time, without a truncated last line.

        Raises: StoreError ``commit.journal``, if the journal is damaged.
        """
        size = os.fstat(self._descriptor).st_size
        *whole, _ = os.pread(self._descriptor, size, 0).split(b"\n")
        try:
            return [_parse_record(json.loads(line)) for line in whole if line]
        except (ValueError, KeyError, TypeError) as problem:
            message = (
                f"{self._path} is damaged ({problem}); inspect it, and move it elsewhere to start a new one"
            )
            raise StoreError("commit.journal", message) from problem

    def append(self, record: JournalRecord) -> None:
        """Append a line durably, together with the current user and time."""
        line = json.dumps(_to_json_record(record), sort_keys=True).encode() + b"\n"
        size = os.fstat(self._descriptor).st_size
        cut = size and os.pread(self._descriptor, 1, size - 1) != b"\n"
        if cut:  # A crash truncated this line, and no change followed it.
            whole = os.pread(self._descriptor, size, 0).rfind(b"\n") + 1
            os.ftruncate(self._descriptor, whole)
        os.lseek(self._descriptor, 0, os.SEEK_END)
        os.write(self._descriptor, line)
        os.fsync(self._descriptor)
        flush_folder(self._path.parent)


@contextmanager
def open_journal(database: Path) -> Iterator[Journal]:
    """Open a database's journal with an exclusive lock, and create it if it doesn't exist.

    Raises: RequestError ``commit.refused``, if another commit or rollback holds the lock.
    """
    path = database.with_name(database.name + SUFFIX)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise build_refusal_error(
                f"another commit or rollback of {database} is running; try again"
            ) from None
        if database.exists():  # Users who can write to the database can commit to it.
            os.fchmod(descriptor, database.stat().st_mode & 0o666)
        yield Journal(descriptor, path)
    finally:
        os.close(descriptor)


def read_journal(database: Path) -> Sequence[JournalRecord]:
    """Return the records of a database's journal, or an empty tuple if no journal exists."""
    path = database.with_name(database.name + SUFFIX)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return ()
    try:
        return Journal(descriptor, path).read_records()
    finally:
        os.close(descriptor)


def find_last_record(records: Sequence[JournalRecord], reference: str) -> JournalRecord | None:
    """Return the last record for an attempt or a pipeline name, or None."""
    return next((record for record in reversed(records) if record.matches_reference(reference)), None)


def _get_user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _to_json_record(record: JournalRecord) -> Mapping[str, object]:
    return {
        "action": record.action,
        "state": record.state,
        "at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "uid": os.getuid(),
        "user": _get_user_name(),
        "attempt_id": record.attempt_id,
        "name": record.name,
        "database": None if record.database is None else _to_json_object(record.database),
        "files": [_to_json_object(file) for file in record.files],
    }


def _to_json_object(replaced: ReplacedObject) -> Mapping[str, object]:
    return {key: getattr(replaced, key) for key in ("name", "before", "after", "backup")}


def _parse_record(line: Mapping[str, object]) -> JournalRecord:
    database, files = line["database"], line["files"]
    if not isinstance(files, list):
        raise TypeError("files is not a list")
    return JournalRecord(
        action=_require_text(line["action"]),
        state=_require_text(line["state"]),
        attempt_id=_require_text(line["attempt_id"]),
        name=_require_optional_text(line["name"]),
        database=None if database is None else _parse_replaced(database),
        files=tuple(map(_parse_replaced, files)),
    )


def _parse_replaced(thing: object) -> ReplacedObject:
    if not isinstance(thing, dict):
        raise TypeError("an entry is not an object")
    optional = {key: _require_optional_text(thing[key]) for key in ("before", "after", "backup")}
    return ReplacedObject(name=_require_text(thing["name"]), **optional)


def _require_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} isn't a string")
    return value


def _require_optional_text(value: object) -> str | None:
    return None if value is None else _require_text(value)


def describe_differences(old: bytes, new: bytes) -> list[str]:
    """Return a line for each table in which two states of a database differ, or a line with the error."""
    try:
        with _open_both_databases(old, new) as connection:
            return _list_differences(connection)
    except sqlite3.Error as problem:
        return [f"the tables can't be compared: {plain(str(problem))}"]


def _list_differences(connection: sqlite3.Connection) -> list[str]:
    before, after = (
        {name for (name,) in connection.execute(_LIST_TABLES_SQL.format(schema))}
        for schema in ("old", "main")
    )
    lines = []
    for table in sorted(before | after):
        if table not in after:
            lines.append(f"table {plain(table)}: removed, with {_count_rows(connection, 'old', table)} rows")
        elif table not in before:
            lines.append(f"table {plain(table)}: new, with {_count_rows(connection, 'main', table)} rows")
        else:
            lines.extend(_compare_rows(connection, table))
    return lines


def _compare_rows(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    name = _quote_identifier(table)
    if _read_column_names(connection, "old", table) != _read_column_names(connection, "main", table):
        yield f"table {plain(table)}: different columns"
        return
    counts = []
    for one, other in (("main", "old"), ("old", "main")):
        beyond = f"SELECT * FROM {one}.{name} EXCEPT SELECT * FROM {other}.{name}"  # noqa: S608 - quoted
        beyond = f"SELECT count(*) FROM ({beyond})"  # noqa: S608 - quoted
        counts.append(connection.execute(beyond).fetchone()[0])
    lengths = [_count_rows(connection, schema, table) for schema in ("old", "main")]
    if any(counts) or lengths[0] != lengths[1]:
        rows = f"{lengths[0]} to {lengths[1]} rows"
        yield f"table {plain(table)}: {rows}, {counts[0]} new or changed, {counts[1]} removed or changed"


def _read_column_names(connection: sqlite3.Connection, schema: str, table: str) -> list[str]:
    found = connection.execute("SELECT name FROM pragma_table_xinfo(?, ?)", (table, schema))
    return [name for (name,) in found]


def _count_rows(connection: sqlite3.Connection, schema: str, table: str) -> int:
    counting = f"SELECT count(*) FROM {schema}.{_quote_identifier(table)}"  # noqa: S608 - quoted
    return int(connection.execute(counting).fetchone()[0])


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _open_both_databases(old: bytes, new: bytes) -> Iterator[sqlite3.Connection]:
    """Open two databases in memory, with the older one attached as schema ``old``."""
    with open_in_memory(new) as connection:
        connection.execute("ATTACH ':memory:' AS old")
        connection.deserialize(to_rollback_mode(old), name="old")
        due = time.monotonic() + COMPARISON_TIMEOUT_S
        connection.set_progress_handler(lambda: int(time.monotonic() >= due), _STEPS)
        yield connection
