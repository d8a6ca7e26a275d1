"""Stores attempts, runs, verdicts and events in a database.

Acceptances and verdicts are flushed to the disk before the response is sent. The record of a lease survives
the end of the daemon, but not a power failure, which also ends the containers. Statements are built once
and receive plain values, because building a statement takes as long as executing it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, and_, bindparam, delete, func, insert, or_, select

from assayd.errors import RequestError, StoreError
from assayd.model.attempt import Attempt
from assayd.model.records import (
    AcceptedSubmission,
    AttemptEvent,
    AttemptPage,
    AttemptQuery,
    AttemptRun,
    Summary,
)
from assayd.model.report import Case
from assayd.store import attempt_queries, tables
from assayd.store.access import DatabaseAccess, OnMessage, open_access
from assayd.store.attempt_queries import RemovalQuery, Statement, StoredUsage, page, select_page, summary
from assayd.store.outbox import Outbox, build_attempt_message_row
from assayd.store.recorder import (
    JobRowWriter,
    PlainJobRowWriter,
    Recorder,
    VerdictWriteResult,
    run_recorder_step,
)
from assayd.store.unsynced import UNSYNCED, UnsyncedBundles

LARGE_BYTES = 64 * 2**10
"""Size in bytes above which the store looks for an equal submission before it writes one."""
BUNDLES = "artifacts"
"""Folder of the bundles, relative to the state directory."""

_RUN_COUNT = (
    select(func.coalesce(func.max(tables.runs.c.run_number), 0))
    .where(tables.runs.c.attempt_id == tables.attempts.c.id)
    .scalar_subquery()
)
_VERDICT_NODE = (
    select(tables.runs.c.daemon_id)
    .where(
        tables.runs.c.attempt_id == tables.verdicts.c.attempt_id,
        tables.runs.c.run_number == tables.verdicts.c.run_number,
        tables.runs.c.generation == "",
    )
    .scalar_subquery()
)
"""The node that produced a verdict. A run on a single host records the daemon's generation instead."""
_ATTEMPT = select(
    tables.attempts,
    *(column for column in tables.verdicts.c if column.name not in {"attempt_id", "run_number"}),
    tables.verdicts.c.run_number.label("verdict_run"),
    _RUN_COUNT.label("runs"),
    _VERDICT_NODE.label("node"),
).select_from(tables.attempts.outerjoin(tables.verdicts))
_SELECT_ATTEMPT = _ATTEMPT.where(tables.attempts.c.id == bindparam("wanted"))
_UNFINISHED = _ATTEMPT.where(tables.verdicts.c.attempt_id.is_(None)).order_by(
    tables.attempts.c.created_at, tables.attempts.c.id
)
_DOCUMENT_QUERY = (
    select(tables.submissions.c.document)
    .join(tables.attempts, tables.attempts.c.submission == tables.submissions.c.digest)
    .where(tables.attempts.c.id == bindparam("wanted"))
)
_DOCUMENT_SIZE = _DOCUMENT_QUERY.with_only_columns(func.length(tables.submissions.c.document))
_SELECT_SAME_REQUEST = select(
    tables.attempts.c.id, tables.attempts.c.submission, tables.attempts.c.uid
).where(
    or_(
        tables.attempts.c.id == bindparam("wanted"),
        and_(
            tables.attempts.c.uid == bindparam("by_uid"),
            tables.attempts.c.idempotency_key == bindparam("by_key"),
        ),
    )
)
_EVENTS = (
    select(tables.events)
    .where(tables.events.c.attempt_id == bindparam("wanted"), tables.events.c.seq > bindparam("after"))
    .order_by(tables.events.c.seq)
)
_INSERT_LABELS = insert(tables.labels)
_INSERT_RUN = insert(tables.runs)
_SELECT_THIS_RUN = select(tables.runs.c.run_number).where(
    tables.runs.c.attempt_id == bindparam("attempt_id"),
    tables.runs.c.run_number == bindparam("run_number"),
    tables.runs.c.daemon_id == bindparam("daemon_id"),
    tables.runs.c.container_ulid == bindparam("container_ulid"),
)
_HELD_RUN = (
    select(tables.runs.c.run_number)
    .where(
        tables.runs.c.attempt_id == bindparam("wanted"),
        tables.runs.c.run_number == bindparam("run"),
        tables.runs.c.daemon_id == bindparam("by"),
        tables.runs.c.leased_at == bindparam("leased"),
        tables.runs.c.expires_at > 0,
    )
    .with_for_update(read=True)
)
_DELETE_RUN = delete(tables.runs).where(
    tables.runs.c.attempt_id == bindparam("wanted"), tables.runs.c.run_number == bindparam("run")
)
_SELECT_BY_IDS = _ATTEMPT.where(tables.attempts.c.id.in_(bindparam("ids", expanding=True)))
_VERDICT = select(tables.verdicts).where(tables.verdicts.c.attempt_id == bindparam("wanted"))
_SELECT_BY_KEY = select(tables.attempts.c.id).where(
    tables.attempts.c.uid == bindparam("by_uid"), tables.attempts.c.idempotency_key == bindparam("by_key")
)


class DatabaseJobStore:
    """A store of attempts, runs, verdicts and events in SQLite or PostgreSQL."""

    def __init__(
        self,
        access: DatabaseAccess,
        recorders: Sequence[Recorder] = (),
        unsynced: UnsyncedBundles | None = None,
        job_rows: JobRowWriter | None = None,
    ) -> None:
        self.access = access
        self.unsynced = unsynced
        self._rows = job_rows or PlainJobRowWriter(access)
        self._recorders = tuple(recorders)
        self._outbox = Outbox(access)
        self._counting = asyncio.Lock()

    async def accept(
        self, attempt: Attempt, document: bytes, *, idempotency_key: str | None = None
    ) -> AcceptedSubmission:
        """Record a new attempt with its submission, or return the attempt that was recorded first.

        Requests with the same id, or with the same key from the same user, refer to the same attempt if
        their submissions are equal.

        Raises: RequestError ``conflict``, if the submission differs; ``not_found``, if the id belongs to
        another user.
        """
        digest = hashlib.sha256(document).hexdigest()
        values = tables.build_attempt_values(attempt, digest, idempotency_key)
        labels = [
            {"attempt_id": attempt.id, "name": name, "value": value} for name, value in attempt.labels.items()
        ]

        def apply(connection: Connection) -> AcceptedSubmission:
            # Look up the id first, so that a large submission isn't written only to be rolled back.
            earlier = None
            if len(document) > LARGE_BYTES:
                earlier = _find_existing_attempt(connection, attempt, digest, idempotency_key)
            if earlier is not None or not self._rows.accept(connection, attempt, values, document):
                earlier = earlier or _get_recorded_attempt(connection, attempt, digest, idempotency_key)
                return AcceptedSubmission(attempt=earlier, existing=not _is_same_attempt(earlier, attempt))
            if labels:
                connection.execute(_INSERT_LABELS, labels)
            for recorder in self._list_recorders(attempt):
                run_recorder_step(
                    connection, "accept", partial(recorder.accepted, connection, attempt, document)
                )
            return AcceptedSubmission(attempt=attempt, existing=False)

        if len(document) <= LARGE_BYTES and not labels and not self._list_recorders(attempt):
            alone = self._rows.build_accept_statement(attempt, values, document)
            if alone is not None and await self.access.write(alone):
                return AcceptedSubmission(attempt=attempt, existing=False)
        return await self.access.write(apply)

    async def lease(self, run: AttemptRun) -> None:
        """Record the container of a run, so that the daemon's next process can find the container.

        Do nothing if this run is already recorded.
        """
        values = tables.build_run_values(run)

        def apply(connection: Connection) -> None:
            if connection.execute(_SELECT_THIS_RUN, values).first() is not None:
                return
            connection.execute(_INSERT_RUN, values)
            for recorder in self._list_recorders(run):
                run_recorder_step(connection, "lease", partial(recorder.leased, connection, run))

        await self.access.write(apply, durable=False)

    async def delete_run(self, attempt_id: str, run_number: int) -> None:
        """Delete a run that ended without a result because the daemon shut down cleanly."""
        await self.access.write(
            lambda connection: connection.execute(_DELETE_RUN, {"wanted": attempt_id, "run": run_number})
        )

    async def finish(
        self,
        attempt: Attempt,
        events: Sequence[AttemptEvent] = (),
        cases: Sequence[Case] = (),
        refusals: Sequence[str] = (),
        *,
        held_by: str | None = None,
    ) -> bool:
        """Record a verdict and the attempt's events. Return False if the attempt already has a verdict.

        `cases` and `refusals` are passed to the recorders of kinds. `held_by` is the node that reports the
        verdict; the run must still be assigned to this node.

        Raises: RequestError ``run.foreign``, if the run is no longer assigned to this node.
        """
        verdict = tables.build_verdict_values(attempt)
        message = None if attempt.webhook is None else build_attempt_message_row(attempt)
        tried = False
        if held_by is not None and message is None and not self._list_recorders(attempt):
            first, tried = await self._finish_in_one_statement(attempt, verdict, events, held_by)
            if first is not None:
                return first
        keep_bundle = self.unsynced.build_contents_writer(attempt) if self.unsynced is not None else None

        def apply(connection: Connection) -> bool:
            nonlocal tried
            is_again, tried = tried, True
            if held_by is not None:
                _require_assigned_node(connection, verdict, held_by)
            # Serialized here, in the writer's thread, to keep it out of the event loop.
            happened = [tables.build_event_values(event) for event in events]
            if not self._rows.finish(connection, attempt, verdict, happened):
                found = connection.execute(_VERDICT, {"wanted": attempt.id}).mappings().first()
                # An equal verdict means that only the answer to the commit was lost.
                return is_again and found is not None and dict(found) == verdict
            if keep_bundle is not None:
                keep_bundle(connection)
            if message is not None:
                self._outbox.add(connection, message)
            for recorder in self._list_recorders(attempt):
                write = partial(recorder.finished, connection, attempt, cases, events, refusals)
                run_recorder_step(connection, "finish", write)
            return True

        first = await self.access.write(apply)
        if message is not None:
            self._outbox.wake_sender()
        return first

    async def _finish_in_one_statement(
        self, attempt: Attempt, verdict: tables.Values, events: Sequence[AttemptEvent], held_by: str
    ) -> tuple[bool | None, bool]:
        """Try to record a node's verdict with one statement, if the database allows it.

        Return whether the verdict is the first, or None if a transaction must record it, and whether a former
        try may have recorded it.
        """
        happened = [tables.build_event_values(event) for event in events]
        alone = self._rows.build_finish_statement(attempt, verdict, happened, held_by)
        if alone is None:
            return None, False
        written = await self.access.write(alone)
        if written is VerdictWriteResult.LATER:
            return None, alone.tried > 1
        return _is_first_verdict(written, verdict, held_by), False

    async def remove(self, attempt_ids: Sequence[str], *, unless: frozenset[str] = frozenset()) -> None:
        """Delete attempts with all of their rows, and submissions that are no longer referenced.

        Attempts of the batches in `unless` are kept.
        """

        def apply(connection: Connection) -> None:
            attempt_queries.remove(connection, attempt_ids, unless)
            for recorder in self._recorders:
                run_recorder_step(connection, "remove", partial(recorder.removed, connection))

        await self.access.write(apply)

    async def estimate_row_bytes(self, attempt_ids: Sequence[str]) -> Mapping[str, int]:
        """Return the estimated size in bytes of each attempt's rows and submission, by attempt id."""
        return await self.access.read(
            lambda connection: attempt_queries.estimate_row_bytes(connection, attempt_ids)
        )

    async def strip(self, attempt_ids: Sequence[str]) -> None:
        """Record that the bundles of attempts were deleted while the verdicts remain."""
        await self.access.write(
            lambda connection: attempt_queries.record_bundle_removal(connection, attempt_ids)
        )

    async def get(self, attempt_id: str) -> Attempt | None:
        """Return the attempt with this id, or None."""
        return await self.access.read(lambda connection: get_attempt(connection, attempt_id))

    async def get_many(self, attempt_ids: Iterable[str]) -> Mapping[str, Attempt]:
        """Return those of the given attempts that exist, by id."""
        ids = list(attempt_ids)
        found = await self.access.read(
            lambda connection: _fetch_attempts(connection, _SELECT_BY_IDS, {"ids": ids})
        )
        return {attempt.id: attempt for attempt in found}

    async def get_by_idempotency_key(self, uid: int, idempotency_key: str) -> Attempt | None:
        """Return the attempt that a user created with an idempotency key, or None."""

        def fetch(connection: Connection) -> Attempt | None:
            wanted = {"by_uid": uid, "by_key": idempotency_key}
            found = connection.execute(_SELECT_BY_KEY, wanted).scalar()
            return None if found is None else get_attempt(connection, found)

        return await self.access.read(fetch)

    async def document(self, attempt_id: str) -> bytes:
        """Return the accepted submission in its original bytes.

        Raises: StoreError ``attempt.missing``, if the attempt doesn't exist.
        """
        return bytes(await self._fetch_of_document(_DOCUMENT_QUERY, attempt_id))

    async def document_size(self, attempt_id: str) -> int:
        """Return the size of the accepted submission in bytes.

        Raises: StoreError ``attempt.missing``, if the attempt doesn't exist.
        """
        size: int = await self._fetch_of_document(_DOCUMENT_SIZE, attempt_id)
        return size

    async def _fetch_of_document(self, statement: Select[Any], attempt_id: str) -> Any:
        found = await self.access.read(
            lambda connection: connection.execute(statement, {"wanted": attempt_id}).scalar()
        )
        if found is None:
            raise StoreError("attempt.missing", f"attempt {attempt_id} doesn't exist")
        return found

    async def list(self, query: AttemptQuery) -> AttemptPage:
        """Return a page of attempts, newest first.

        The states between `queued` and `finished` aren't stored, so a query for such a state returns all
        unfinished attempts. Raises: RequestError ``invalid`` for a malformed cursor.
        """
        statement = select_page(_ATTEMPT, query)
        found = await self.access.read(lambda connection: _fetch_attempts(connection, statement))
        return page(found, query)

    async def summary(self, query: AttemptQuery, bucket_s: int) -> Summary:
        """Return counts, frequent rules and the slowest attempts of the finished attempts that match a query.

        The counts are grouped by intervals of `bucket_s` seconds.
        """
        # One count at a time: it reads every matching row, and frequent callers must not occupy all readers.
        async with self._counting:
            return await self.access.read(lambda connection: summary(connection, query, bucket_s))

    async def events(self, attempt_id: str, *, after: int = 0) -> Sequence[AttemptEvent]:
        """Return the recorded events of an attempt whose sequence numbers exceed `after`."""
        wanted = {"wanted": attempt_id, "after": after}
        return await self.access.read(
            lambda connection: [
                tables.read_event(row) for row in connection.execute(_EVENTS, wanted).mappings()
            ]
        )

    async def list_unfinished(self) -> Sequence[Attempt]:
        """Return all attempts without a verdict, in order of acceptance."""
        return await self.access.read(lambda connection: _fetch_attempts(connection, _UNFINISHED))

    async def list_removable(self, wanted: RemovalQuery) -> Sequence[Attempt]:
        """Return the finished attempts that can be deleted, oldest first."""
        statement = attempt_queries.select_removable(_ATTEMPT, wanted)
        return await self.access.read(lambda connection: _fetch_attempts(connection, statement))

    def _list_recorders(self, subject: Attempt | AttemptRun) -> Sequence[Recorder]:
        return [recorder for recorder in self._recorders if recorder.kind == subject.kind]

    async def usage(self) -> Mapping[int, StoredUsage]:
        """Return the stored data of each user, by user id."""
        return await self.access.read(attempt_queries.read_usage)


@asynccontextmanager
async def open_job_store(
    state_dir: Path,
    database_url: str | None = None,
    recorders: Sequence[Recorder] = (),
    job_rows: JobRowWriter | None = None,
    *,
    on_message: OnMessage | None = None,
) -> AsyncIterator[DatabaseJobStore]:
    """Open the database, migrate its schema, yield the job store, and close the database on exit.

    Raises:
        ConfigError: ``store.url``, for a malformed URL or a missing driver.
        StoreError: the database is damaged, newer than this program, or not writable.
    """
    async with open_access(state_dir, database_url, on_message) as access:
        await access.create_tables(
            [UNSYNCED, *(table for recorder in recorders for table in recorder.tables)]
        )
        unsynced = UnsyncedBundles(access, state_dir / BUNDLES)
        yield DatabaseJobStore(access, recorders, unsynced, job_rows)


def _find_existing_attempt(
    connection: Connection, attempt: Attempt, digest: str, key: str | None
) -> Attempt | None:
    """Return the attempt that was created by an earlier, equal request, or None.

    Raises:
        RequestError: ``conflict``, if the id or key was used for another submission; ``not_found``, if the id
            belongs to another user.
    """
    same = {"wanted": attempt.id, "by_uid": attempt.peer.uid, "by_key": key}
    found = connection.execute(_SELECT_SAME_REQUEST, same).all()
    if any(row.uid != attempt.peer.uid for row in found):
        # The same answer as GET gives, so that users can't find out the ids or payloads of other users.
        raise RequestError("not_found", f"attempt {attempt.id} doesn't exist")
    if len(found) > 1 or any(row.submission != digest for row in found):
        what = "id" if any(row.id == attempt.id for row in found) else "idempotency key"
        raise RequestError("conflict", f"this {what} was already used for another submission")
    return get_attempt(connection, found[0].id) if found else None


def _get_recorded_attempt(connection: Connection, attempt: Attempt, digest: str, key: str | None) -> Attempt:
    """Return the stored attempt with the same id or key.

    Raises: StoreError ``attempt.missing``, if it was just deleted, and the same errors as
    `_find_existing_attempt`.
    """
    earlier = _find_existing_attempt(connection, attempt, digest, key)
    if earlier is None:
        message = "the attempt with this id or key was just deleted; submit again"
        raise StoreError("attempt.missing", message, retryable=True)
    return earlier


def _require_assigned_node(connection: Connection, verdict: tables.Values, by: str) -> None:
    """Ensure that a run without a verdict is still assigned to a particular node.

    Raises: RequestError ``run.foreign``, if it isn't.
    """
    wanted = {"by": by, "leased": verdict["started_at"]}
    wanted |= {"wanted": verdict["attempt_id"], "run": verdict["run_number"]}
    if connection.execute(_HELD_RUN, wanted).first() is None:
        raise _create_foreign_run_error(verdict, by)


def _is_first_verdict(written: VerdictWriteResult, verdict: tables.Values, by: str) -> bool:
    if written is VerdictWriteResult.FOREIGN:
        raise _create_foreign_run_error(verdict, by)
    return written is VerdictWriteResult.FIRST


def _create_foreign_run_error(verdict: tables.Values, by: str) -> RequestError:
    number = verdict["run_number"]
    return RequestError("run.foreign", f"{by} no longer holds run {number} of this attempt")


def _is_same_attempt(earlier: Attempt, attempt: Attempt) -> bool:
    """Return whether both values are one recorded attempt, which a repeated change finds again."""
    return (earlier.id, earlier.created_at, earlier.peer) == (attempt.id, attempt.created_at, attempt.peer)


def get_attempt(connection: Connection, attempt_id: str) -> Attempt | None:
    """Return the attempt with this id, or None."""
    row = connection.execute(_SELECT_ATTEMPT, {"wanted": attempt_id}).mappings().first()
    return None if row is None else tables.read_attempt(row)


def _fetch_attempts(
    connection: Connection, statement: Statement, values: Mapping[str, object] | None = None
) -> tuple[Attempt, ...]:
    return tuple(tables.read_attempt(row) for row in connection.execute(statement, values).mappings())
