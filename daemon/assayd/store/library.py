"""Stores the library of approved submissions in a database, keyed by user and name.

Entries can be removed but not changed. Each user's entries can protect only a limited number of bytes from
deletion.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, delete, func, insert, select

from assayd.clock import Clock
from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd.model.merge import PARTLY_CHECKED_REASON
from assayd.model.policy import REPORT_ONLY, Enforcement
from assayd.model.records import LibraryEntry
from assayd.model.report import Verdict
from assayd.store.access import DatabaseAccess
from assayd.store.tables import attempts, from_micros, library_entries, submissions, to_micros, verdicts

Statement = Select[Any]
Room = Callable[[], Awaitable[int]]

CHAIN = 100
"""Maximum attempts of a chain to record; the oldest are omitted."""
ENTRY_BYTES = 16 * 2**10
"""Estimated bytes of the rows of an entry, its attempt and its events, in addition to documents and files."""
MIB = 2**20
_SELECT_FULL = (
    select(library_entries, submissions.c.document)
    .join(attempts, attempts.c.id == library_entries.c.attempt_id)
    .join(submissions, submissions.c.digest == attempts.c.submission)
)
_SELECT_ENTRY = select(library_entries)
_ENTRIES_BYTES = func.coalesce(
    func.sum(
        func.length(library_entries.c.chain)
        + func.coalesce(func.length(library_entries.c.intent), 0)
        + ENTRY_BYTES
    ),
    0,
)
_ATTEMPTS_BYTES = (
    select(func.coalesce(func.sum(verdicts.c.disk_bytes + func.length(submissions.c.document)), 0))
    .join_from(attempts, verdicts, verdicts.c.attempt_id == attempts.c.id)
    .join(submissions, submissions.c.digest == attempts.c.submission)
)


class DatabaseLibrary:
    """A store of approved submissions in SQLite or PostgreSQL, keyed by user and name.

    Methods that return several entries omit the entries' documents.
    """

    def __init__(self, access: DatabaseAccess, clock: Clock, *, most_bytes: int, room: Room) -> None:
        """Create a library.

        Args:
            access: the database.
            clock: the clock that provides approval times.
            most_bytes: the maximum number of bytes that the entries of one user can protect from deletion.
            room: the function that returns the free bytes of the disk, which also limit a user's entries.
        """
        self._access = access
        self._clock = clock
        self._most_bytes = most_bytes
        self._room = room

    async def approve(self, attempt: Attempt, name: str, approved_by: int) -> LibraryEntry:
        """Approve a validated attempt as the next version of a name, and return the entry.

        Repeating the same approval has no effect.

        Raises: RequestError ``library.not_validated``; ``library.distrusted``, if the attempt's node is;
        ``library.report_only`` or ``library.partly_checked``, if rules weren't enforced; ``quota.library``,
        if the user's entries exceed the limit.
        """
        if attempt.verdict is not Verdict.VALIDATED:
            what = attempt.verdict.value if attempt.verdict else attempt.state.value
            message = f"only a validated attempt can be approved; this one is {what}"
            raise RequestError("library.not_validated", message)
        if attempt.distrusted_at is not None:
            message = f"node {attempt.node}, which judged it, is distrusted; approve a replay instead"
            raise RequestError("library.distrusted", message)
        if not attempt.approvable and attempt.enforcement is not Enforcement.REPORT:
            raise RequestError("library.partly_checked", PARTLY_CHECKED_REASON)
        if not attempt.approvable:
            raise RequestError("library.report_only", REPORT_ONLY)
        at, most_bytes = self._clock.now(), min(self._most_bytes, max(0, await self._room()))

        def apply(connection: Connection) -> LibraryEntry:
            approved = _select_named(_SELECT_FULL, attempt.peer.uid, name).where(
                library_entries.c.attempt_id == attempt.id
            )
            if (row := connection.execute(approved).mappings().first()) is not None:
                return _read_entry(row)
            values = _build_entry_values(connection, attempt, name, approved_by=approved_by, at=at)
            connection.execute(insert(library_entries), values)
            self._require_limit(_read_held_bytes(connection, attempt.peer.uid), most_bytes)
            return _read_entry(connection.execute(approved).mappings().one())

        return await self._access.write(apply)

    async def list(self, *, uid: int | None, after: str | None, limit: int) -> Sequence[LibraryEntry]:
        """Return the newest version of each name of a user, sorted by name.

        If `uid` is None, include all users.
        """
        newest = (
            select(
                library_entries.c.uid,
                library_entries.c.name,
                func.max(library_entries.c.version).label("version"),
            )
            .group_by(library_entries.c.uid, library_entries.c.name)
            .subquery()
        )
        same = and_(
            newest.c.uid == library_entries.c.uid,
            newest.c.name == library_entries.c.name,
            newest.c.version == library_entries.c.version,
        )
        statement = _SELECT_ENTRY.join(newest, same).order_by(library_entries.c.name, library_entries.c.uid)
        if uid is not None:
            statement = statement.where(library_entries.c.uid == uid)
        if after is not None:
            statement = statement.where(library_entries.c.name > after)
        return await self._fetch_entries(statement.limit(limit))

    async def list_versions(self, uid: int, name: str) -> Sequence[LibraryEntry]:
        """Return all versions of a name, newest first."""
        return await self._fetch_entries(_select_named(_SELECT_ENTRY, uid, name))

    async def entry(self, uid: int, name: str, version: int) -> LibraryEntry | None:
        """Return one version of a name, including its document, or None if it doesn't exist."""
        found = await self._fetch_entries(
            _select_named(_SELECT_FULL, uid, name).where(library_entries.c.version == version)
        )
        return found[0] if found else None

    async def remove(self, uid: int, name: str, version: int | None = None) -> Sequence[LibraryEntry]:
        """Remove one version or all versions of a name, and return the removed entries, newest first.

        Their attempts stay until retention deletes them.
        """
        found = [each for each in await self.list_versions(uid, name) if version in {None, each.version}]
        mine = and_(library_entries.c.uid == uid, library_entries.c.name == name)
        gone = delete(library_entries).where(
            mine, library_entries.c.version.in_([each.version for each in found])
        )
        await self._access.write(lambda connection: connection.execute(gone).close())
        return found

    async def list_entries_of_attempts(self, attempt_ids: Sequence[str]) -> Sequence[LibraryEntry]:
        """Return the library entries that contain the given attempts."""
        wanted = _SELECT_ENTRY.where(library_entries.c.attempt_id.in_(list(attempt_ids)))
        return await self._fetch_entries(wanted.order_by(library_entries.c.approved_at))

    def _require_limit(self, held_bytes: int, most_bytes: int) -> None:
        """Raise RequestError ``quota.library`` if a user's entries exceed the limit."""
        if held_bytes <= most_bytes:
            return
        limit = f"limits.library_mb_per_uid ({self._most_bytes // MIB})"
        if most_bytes < self._most_bytes:
            limit = f"of {most_bytes / MIB:.0f} MB left on the disk or in the database"
        message = (
            f"with this entry, the library of this user would have {held_bytes / MIB:.1f} MB, above "
            f"the limit {limit}; remove entries first: `assay library remove NAME[@VERSION]`"
        )
        raise RequestError("quota.library", message)

    async def _fetch_entries(self, statement: Statement) -> Sequence[LibraryEntry]:
        return await self._access.read(
            lambda connection: [_read_entry(row) for row in connection.execute(statement).mappings()]
        )


def _select_named(entries: Statement, uid: int, name: str) -> Statement:
    mine = and_(library_entries.c.uid == uid, library_entries.c.name == name)
    return entries.where(mine).order_by(library_entries.c.version.desc())


def _read_held_bytes(connection: Connection, uid: int) -> int:
    """Return how many bytes of rows, documents and bundle files a user's entries protect from deletion."""
    mine: ColumnElement[bool] = library_entries.c.uid == uid
    approved = select(library_entries.c.attempt_id).where(mine)
    files = connection.execute(_ATTEMPTS_BYTES.where(attempts.c.id.in_(approved))).scalar_one()
    rows = connection.execute(select(_ENTRIES_BYTES).where(mine)).scalar_one()
    return int(files) + int(rows)


def _build_entry_values(
    connection: Connection, attempt: Attempt, name: str, *, approved_by: int, at: datetime
) -> dict[str, object]:
    mine = and_(library_entries.c.uid == attempt.peer.uid, library_entries.c.name == name)
    newest = connection.execute(select(func.max(library_entries.c.version)).where(mine)).scalar()
    return {
        "uid": attempt.peer.uid,
        "name": name,
        "version": (newest or 0) + 1,
        "kind": attempt.kind,
        "attempt_id": attempt.id,
        "digest": attempt.input_digest,
        "intent": attempt.intent,
        "chain": json.dumps(_list_chain_ids(connection, attempt)),
        "approved_by": approved_by,
        "approved_at": to_micros(at),
        "bundle": attempt.bundle,
    }


def _list_chain_ids(connection: Connection, attempt: Attempt) -> list[str]:
    """Return the ids of the attempts that led to an attempt, followed by its id: at most `CHAIN` ids."""
    chain, parent = [attempt.id], attempt.parent_id
    while parent is not None and parent not in chain and len(chain) < CHAIN:
        chain.append(parent)
        parent = connection.execute(select(attempts.c.parent_id).where(attempts.c.id == parent)).scalar()
    return chain[::-1]


def _read_entry(row: RowMapping) -> LibraryEntry:
    return LibraryEntry(
        uid=row["uid"],
        name=row["name"],
        version=row["version"],
        kind=row["kind"],
        attempt_id=row["attempt_id"],
        digest=row["digest"],
        intent=row["intent"],
        chain=tuple(json.loads(row["chain"])),
        approved_by=row["approved_by"],
        approved_at=from_micros(row["approved_at"]),
        bundle=row["bundle"],
        document=bytes(row.get("document", b"{}")),
    )
