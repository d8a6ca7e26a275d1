"""Keeps the journal of a database's commits and rollbacks as JSON lines in a file next to the database.

A `begun` line is written durably before the first change, and a `done` line after the last change.
Therefore, after a crash, the journal shows the interrupted operation, and repeating the operation completes
it.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from assayd.errors import StoreError
from assayd_pipeline.commands.replacing import flush_folder, refusal_error

SUFFIX = ".commits.jsonl"
COMMIT, ROLLBACK = "commit", "rollback"
BEGUN, DONE = "begun", "done"


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
    """Open a database's journal with an exclusive lock. Raises: RequestError ``commit.refused``."""
    path = database.with_name(database.name + SUFFIX)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal_error(f"another commit or rollback of {database} is running; try again") from None
        if database.exists():  # Users who can write to the database can commit to it.
            os.fchmod(descriptor, database.stat().st_mode & 0o666)
        yield Journal(descriptor, path)
    finally:
        os.close(descriptor)


def read_journal(database: Path) -> Sequence[JournalRecord]:
    """Return the records of a database's journal; a missing journal isn't created."""
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
    """Return the last record for an attempt or a pipeline name."""
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
