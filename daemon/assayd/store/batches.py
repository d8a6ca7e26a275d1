"""Stores batches and their items in a database.

Batch, line number and input digest together identify an item, so a line that is sent again changes nothing.
The attempt id of an item is chosen when its line is recorded, so that a repeated start never creates a
second attempt. Only the table `verdicts` determines whether an item has a verdict.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Connection,
    RowMapping,
    Select,
    Update,
    and_,
    bindparam,
    case,
    exists,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from assayd.errors import RequestError, StoreError
from assayd.model.attempt import Failure
from assayd.model.batch import Batch, BatchItem, BatchLine, BatchPage, ItemCounts, ReceivedLines, WaitingItem
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.store import attempt_queries
from assayd.store.access import DatabaseAccess
from assayd.store.outbox import Outbox, build_batch_message_row
from assayd.store.tables import (
    attempts,
    batch_items,
    batches,
    from_micros,
    read_optional_time,
    submissions,
    to_micros,
    verdicts,
)

# SQLAlchemy types a select by its columns; rows are read by name here.
Statement = Select[Any]

_ITEM = batch_items.c
_IS_THIS_BATCH = batches.c.id == bindparam("batch")
_IS_UNFINISHED = and_(batches.c.finished_at.is_(None), batches.c.cancelled_at.is_(None))
_IS_BATCH_ITEM = and_(_ITEM.batch_id == bindparam("batch"), _ITEM.present == 1)
_JOINED_ITEMS = batch_items.outerjoin(verdicts, verdicts.c.attempt_id == _ITEM.attempt_id)
_HAS_NO_VERDICT = and_(_ITEM.error_code.is_(None), verdicts.c.attempt_id.is_(None))
_SELECT_BY_NAME = select(batches).where(
    batches.c.uid == bindparam("by_uid"), batches.c.name == bindparam("by_name")
)
_SELECT_BATCH = select(batches).where(_IS_THIS_BATCH)
_LOCK_BATCH = _SELECT_BATCH.with_for_update()
"""The row lock that prevents the end of a batch while any process adds lines."""
_COUNT_UNFINISHED = select(func.count()).where(batches.c.uid == bindparam("by_uid"), _IS_UNFINISHED)
_UPDATE_BATCH = update(batches).where(_IS_THIS_BATCH)
_KNOWN_LINES = select(_ITEM.line, _ITEM.input_digest, _ITEM.submission, _ITEM.present).where(
    _ITEM.batch_id == bindparam("batch"), _ITEM.line.in_(bindparam("lines", expanding=True))
)
_SELECT_SAME_RUN = select(_ITEM.run_key, _ITEM.attempt_id).where(
    _ITEM.batch_id == bindparam("batch"), _ITEM.run_key.in_(bindparam("keys", expanding=True))
)
_REPLACE = (
    update(batch_items)
    .where(_ITEM.batch_id == bindparam("batch"), _ITEM.line == bindparam("at_line"))
    .values(present=case((_ITEM.input_digest == bindparam("digest"), 1), else_=0))
)
_COUNT_RESULTS = (
    select(verdicts.c.verdict, _ITEM.error_code.is_not(None).label("malformed"), func.count().label("number"))
    .select_from(_JOINED_ITEMS)
    .where(_IS_BATCH_ITEM)
    .group_by(verdicts.c.verdict, _ITEM.error_code.is_not(None))
)
_ITEMS = (
    select(batch_items, verdicts.c.verdict, verdicts.c.cause, verdicts.c.rules, batches.c.cancelled_at)
    .select_from(_JOINED_ITEMS.join(batches, batches.c.id == _ITEM.batch_id))
    .where(_IS_BATCH_ITEM, _ITEM.line > bindparam("after"))
    .order_by(_ITEM.line)
)
SMALL_BYTES = 16 * 2**10
"""Maximum bytes of a document that is read together with its item."""
_IS_SMALL = func.length(submissions.c.document) <= SMALL_BYTES
_SELECT_WAITING = (
    select(
        _ITEM.line,
        _ITEM.attempt_id,
        _ITEM.submission,
        func.coalesce(func.length(submissions.c.document), 0).label("size"),
        case((_IS_SMALL, submissions.c.document)).label("document"),
        exists().where(attempts.c.id == _ITEM.attempt_id).label("accepted"),
    )
    .select_from(_JOINED_ITEMS.outerjoin(submissions, submissions.c.digest == _ITEM.submission))
    .where(_IS_BATCH_ITEM, _HAS_NO_VERDICT, _ITEM.line > bindparam("after"))
    .order_by(_ITEM.line)
)
_REFUSE_ITEM = update(batch_items).where(
    _ITEM.batch_id == bindparam("batch"), _ITEM.line == bindparam("at_line"), _ITEM.present == 1
)
_ERROR_ATTEMPTS = (
    select(_ITEM.attempt_id)
    .select_from(_JOINED_ITEMS)
    .where(
        _IS_BATCH_ITEM,
        _ITEM.attempt_id.is_not(None),
        or_(_ITEM.error_code.is_not(None), verdicts.c.verdict == Verdict.ERROR.value),
    )
    .distinct()
)
"""Attempts of items whose verdict is `error`. Malformed lines have no attempt."""
_REASSIGN_ATTEMPT = (
    update(batch_items)
    .where(_ITEM.batch_id == bindparam("batch"), _ITEM.attempt_id == bindparam("old"))
    .values(attempt_id=bindparam("new"), error_code=None, error_message=None)
)
_SELECT_DOCUMENT = select(submissions.c.document).where(submissions.c.digest == bindparam("wanted"))
_INSERT_ITEMS = insert(batch_items)


class DatabaseBatchStore:
    """A store of batches and their items in SQLite or PostgreSQL."""

    def __init__(self, access: DatabaseAccess) -> None:
        self._access = access
        self._new_submission = access.build_insert_or_ignore(submissions)
        self._outbox = Outbox(access)

    async def open(self, batch: Batch, *, max_unfinished: int) -> Batch:
        """Record a new batch, or reopen the batch that the same user created under this name.

        Raises: RequestError ``quota.full``, if the user already has `max_unfinished` unfinished batches.
        """

        def apply(connection: Connection) -> Batch:
            by_name = {"by_uid": batch.peer.uid, "by_name": batch.name}
            known = connection.execute(_SELECT_BY_NAME, by_name).mappings().first()
            if known is None:
                if connection.execute(_COUNT_UNFINISHED, by_name).scalar_one() >= max_unfinished:
                    message = f"{max_unfinished} batches of this user are unfinished; cancel one, or wait"
                    raise RequestError("quota.full", message, retryable=True)
                connection.execute(insert(batches), _build_batch_values(batch))
                return batch
            changes = {
                "concurrency": batch.concurrency,
                "dedupe": int(batch.dedupe),
                "webhook": batch.webhook,
                "cancelled_at": None,
            }
            connection.execute(_UPDATE_BATCH.values(changes), {"batch": known["id"]})
            return _read_batch({**known, **changes})

        return await self._access.write(apply)

    async def add(self, batch_id: str, lines: Sequence[BatchLine]) -> ReceivedLines:
        """Record new lines. A line with a known number but different input replaces the earlier line.

        Raises: RequestError ``batch.removed``, if the batch no longer exists.
        """
        digests = {line.number: _digest_or_none(line.document) for line in lines}

        def apply(connection: Connection) -> ReceivedLines:
            wanted = {"batch": batch_id, "lines": list(digests)}
            if connection.execute(_LOCK_BATCH, wanted).first() is None:
                raise _build_batch_removed_error()
            known = {(row.line, row.input_digest): row for row in connection.execute(_KNOWN_LINES, wanted)}
            rows = [known.get((line.number, line.input_digest)) for line in lines]
            fresh = [line for line, row in zip(lines, rows, strict=True) if row is None]
            self._insert_items(connection, batch_id, fresh, digests)
            again = [line for line, row in zip(lines, rows, strict=True) if row and not row.present]
            numbers = {number for number, _ in known}
            for line in (*again, *(line for line in fresh if line.number in numbers)):
                at = {"batch": batch_id, "at_line": line.number, "digest": line.input_digest}
                connection.execute(_REPLACE, at)
            if fresh or again:
                connection.execute(_UPDATE_BATCH.values(finished_at=None), {"batch": batch_id})
            changed = (row and row.line for row in rows if row and row.submission != digests[row.line])
            return ReceivedLines(
                lines=len(lines),
                added=len(fresh),
                known=len(lines) - len(fresh),
                malformed=sum(line.error is not None for line in lines),
                conflicting=tuple(changed),
            )

        return await self._access.write(apply)

    def _insert_items(
        self,
        connection: Connection,
        batch_id: str,
        lines: Sequence[BatchLine],
        digests: Mapping[int, str | None],
    ) -> None:
        keys = [line.run_key for line in lines if line.run_key is not None]
        found = connection.execute(_SELECT_SAME_RUN, {"batch": batch_id, "keys": keys}) if keys else ()
        same = {row.run_key: row.attempt_id for row in found}
        documents, items = [], []
        for line in lines:
            attempt_id = line.attempt_id
            if line.run_key is not None:
                attempt_id = same.setdefault(line.run_key, attempt_id)
            if line.document is not None:
                documents.append({"digest": digests[line.number], "document": line.document})
            items.append(_build_item_values(batch_id, line, digests[line.number], attempt_id))
        if documents:
            connection.execute(self._new_submission, documents)
        if items:
            connection.execute(_INSERT_ITEMS, items)

    async def retry_errors(self, batch_id: str, new_id: Callable[[], str]) -> int:
        """Assign new attempts to the items with the verdict `error`, and return the number of attempts.

        Malformed lines keep their errors.

        Raises: RequestError ``batch.cancelled``, if the batch is cancelled; ``batch.removed``, if the batch
        no longer exists.
        """

        def apply(connection: Connection) -> int:
            batch = connection.execute(_LOCK_BATCH, {"batch": batch_id}).mappings().first()
            if batch is None:
                raise _build_batch_removed_error()
            if batch["cancelled_at"] is not None:
                message = f"the batch was cancelled; continue it: assay batch resume {batch['name']} FILE"
                raise RequestError("batch.cancelled", message)
            troubled = connection.execute(_ERROR_ATTEMPTS, {"batch": batch_id}).scalars().all()
            if troubled:
                renewed = [{"batch": batch_id, "old": old, "new": new_id()} for old in troubled]
                connection.execute(_REASSIGN_ATTEMPT, renewed)
                connection.execute(_UPDATE_BATCH.values(finished_at=None), {"batch": batch_id})
            return len(troubled)

        return await self._access.write(apply)

    async def complete(self, batch_id: str) -> None:
        """Record that a batch is complete, because all of its lines have arrived."""
        await self._update_batch(batch_id, complete=1)

    async def cancel(self, batch_id: str, at: datetime) -> None:
        """Cancel a batch, so that none of its waiting items starts. Do nothing if the batch has ended."""
        unended = update(batches).where(_IS_THIS_BATCH, _IS_UNFINISHED)
        await self._end_batch(batch_id, unended.values(cancelled_at=to_micros(at)), at)

    async def _update_batch(self, batch_id: str, **values: int) -> None:
        statement = _UPDATE_BATCH.values(values)
        await self._access.write(
            lambda connection: connection.execute(statement, {"batch": batch_id}).close()
        )

    async def finish(self, batch_id: str, at: datetime) -> bool:
        """Record the end of a batch, and return whether it is finished.

        It isn't if lines are still to arrive or an item has no verdict.
        """
        waits = select(_ITEM.line).select_from(_JOINED_ITEMS).where(_IS_BATCH_ITEM, _HAS_NO_VERDICT).exists()
        unfinished = batches.c.finished_at.is_(None)
        statement = update(batches).where(_IS_THIS_BATCH, unfinished, batches.c.complete == 1, ~waits)
        return await self._end_batch(batch_id, statement.values(finished_at=to_micros(at)), at)

    async def _end_batch(self, batch_id: str, statement: Update, at: datetime) -> bool:
        """End a batch and queue its webhook message in one transaction.

        Return whether the batch is finished. For a batch that was already finished, no second message is
        queued.
        """

        def apply(connection: Connection) -> bool:
            found = connection.execute(_LOCK_BATCH, {"batch": batch_id}).mappings().first()
            if connection.execute(statement, {"batch": batch_id}).rowcount != 1:
                return found is not None and found["finished_at"] is not None
            batch = _read_batch(connection.execute(_SELECT_BATCH, {"batch": batch_id}).mappings().one())
            if batch.webhook is not None:
                self._outbox.add(
                    connection, build_batch_message_row(batch, _count_items(connection, batch_id), at)
                )
            return True

        ended = await self._access.write(apply)
        if ended:
            self._outbox.wake_sender()
        return ended

    async def refuse(self, batch_id: str, line: int, failure: Failure) -> None:
        """Record the error of an item that can't be submitted."""
        statement = _REFUSE_ITEM.values(error_code=failure.code, error_message=failure.message)
        at = {"batch": batch_id, "at_line": line}
        await self._access.write(lambda connection: connection.execute(statement, at).close())

    async def get(self, batch_id: str) -> Batch | None:
        """Return the batch with this id, or None."""
        return await self._fetch_batch(_SELECT_BATCH, {"batch": batch_id})

    async def find(self, uid: int, name: str) -> Batch | None:
        """Return the batch with this name that the user created, or None."""
        return await self._fetch_batch(_SELECT_BY_NAME, {"by_uid": uid, "by_name": name})

    async def _fetch_batch(self, statement: Statement, wanted: dict[str, object]) -> Batch | None:
        found = await self._fetch_rows(statement, wanted)
        return _read_batch(found[0]) if found else None

    async def list(self, *, uid: int | None, cursor: str | None, limit: int) -> BatchPage:
        """Return a page of batches of one user or (if `uid` is None) of all users, newest first.

        Raises: RequestError ``invalid``, for a malformed cursor.
        """
        statement = select(batches).order_by(batches.c.created_at.desc(), batches.c.id.desc())
        if uid is not None:
            statement = statement.where(batches.c.uid == uid)
        if cursor is not None:
            statement = statement.where(_build_cursor_condition(cursor))
        found = [_read_batch(row) for row in await self._fetch_rows(statement.limit(limit + 1))]
        shown = tuple(found[:limit])
        more = f"{to_micros(shown[-1].created_at)}.{shown[-1].id}" if len(found) > limit else None
        return BatchPage(batches=shown, next_cursor=more)

    async def tally(self, batch_id: str) -> ItemCounts:
        """Count the items of a batch, grouped by result."""
        return await self._access.read(lambda connection: _count_items(connection, batch_id))

    async def items(self, batch_id: str, *, after: int, limit: int) -> Sequence[BatchItem]:
        """Return up to `limit` items after the line `after`, in line order, ignoring replaced lines."""
        wanted = {"batch": batch_id, "after": after}
        return [_read_item(row) for row in await self._fetch_rows(_ITEMS.limit(limit), wanted)]

    async def waiting(self, batch_id: str, *, after: int, limit: int) -> Sequence[WaitingItem]:
        """Return up to `limit` items without a verdict that follow the line `after`, in line order."""
        wanted = {"batch": batch_id, "after": after}
        return [WaitingItem(**row) for row in await self._fetch_rows(_SELECT_WAITING.limit(limit), wanted)]

    async def document(self, submission: str) -> bytes:
        """Return the submission with this digest. Raises: StoreError ``submission.missing``."""
        found = await self._fetch_rows(_SELECT_DOCUMENT, {"wanted": submission})
        if not found:
            raise StoreError("submission.missing", "the submission of an item no longer exists")
        return bytes(found[0]["document"])

    async def list_unfinished(self) -> Sequence[Batch]:
        """Return all batches that are neither finished nor cancelled."""
        return [_read_batch(row) for row in await self._fetch_rows(select(batches).where(_IS_UNFINISHED))]

    async def count_unfinished_items(self) -> int:
        """Count the items without a verdict in all unfinished batches."""
        unended = select(batches.c.id).where(_IS_UNFINISHED)
        statement = (
            select(func.count())
            .select_from(_JOINED_ITEMS)
            .where(_ITEM.batch_id.in_(unended), _ITEM.present == 1, _HAS_NO_VERDICT)
        )
        return await self._access.read(lambda connection: int(connection.execute(statement).scalar_one()))

    async def delete_expired(self, before: datetime, *, unless: frozenset[str]) -> None:
        """Delete old batches that have ended, if all of their attempts have been deleted.

        Args:
            before: the time before which a batch must have been opened.
            unless: the ids of batches to keep.
        """
        await self._access.write(
            lambda connection: attempt_queries.delete_empty_batches(connection, before, unless)
        )

    async def silent(self, before: datetime) -> Sequence[Batch]:
        """Return unfinished batches that were opened before a time and whose uploads are incomplete."""
        open_ones = select(batches).where(_IS_UNFINISHED, batches.c.complete == 0)
        old = open_ones.where(batches.c.created_at < to_micros(before))
        return [_read_batch(row) for row in await self._fetch_rows(old)]

    async def cancelled(self, batch_ids: Sequence[str]) -> frozenset[str]:
        """Return those of the given ids whose batches are cancelled."""
        chosen = batches.c.id.in_(list(batch_ids))
        statement = select(batches.c.id).where(chosen, batches.c.cancelled_at.is_not(None))
        return frozenset(row["id"] for row in await self._fetch_rows(statement))

    async def _fetch_rows(
        self, statement: Statement, wanted: dict[str, object] | None = None
    ) -> Sequence[RowMapping]:
        return await self._access.read(
            lambda connection: connection.execute(statement, wanted or {}).mappings().all()
        )


def _count_items(connection: Connection, batch_id: str) -> ItemCounts:
    batch = connection.execute(_SELECT_BATCH, {"batch": batch_id}).mappings().first()
    counts: Counter[str] = Counter()
    unstarted = "cancelled" if batch is not None and batch["cancelled_at"] else "waiting"
    for row in connection.execute(_COUNT_RESULTS, {"batch": batch_id}):
        counts["total"] += row.number
        counts["malformed"] += row.number if row.malformed else 0
        counts["error" if row.malformed else row.verdict or unstarted] += row.number
    return ItemCounts(**counts)


def _build_batch_removed_error() -> RequestError:
    message = "the batch expired before these lines arrived; send the whole batch again under its name"
    return RequestError("batch.removed", message, retryable=True)


def _digest_or_none(document: bytes | None) -> str | None:
    return None if document is None else hashlib.sha256(document).hexdigest()


def _build_cursor_condition(cursor: str) -> Any:
    micros, dot, batch_id = cursor.partition(".")
    if not (dot and micros.isascii() and micros.isdigit() and len(micros) <= 18):
        raise RequestError("invalid", "invalid cursor; pass the `next_cursor` of a page", field="cursor")
    return tuple_(batches.c.created_at, batches.c.id) < tuple_(int(micros), batch_id)


def _build_batch_values(batch: Batch) -> dict[str, object]:
    return {
        "id": batch.id,
        "name": batch.name,
        "uid": batch.peer.uid,
        "gid": batch.peer.gid,
        "pid": batch.peer.pid,
        "created_at": to_micros(batch.created_at),
        "concurrency": batch.concurrency,
        "dedupe": int(batch.dedupe),
        "complete": int(batch.complete),
        "webhook": batch.webhook,
    }


def _build_item_values(
    batch_id: str, line: BatchLine, submission: str | None, attempt_id: str | None
) -> dict[str, object]:
    return {
        "batch_id": batch_id,
        "line": line.number,
        "input_digest": line.input_digest,
        "submission": submission,
        "attempt_id": attempt_id,
        "run_key": line.run_key,
        "present": 1,
        "error_code": line.error.code if line.error else None,
        "error_message": line.error.message if line.error else None,
    }


def _read_batch(row: Any) -> Batch:
    return Batch(
        id=row["id"],
        name=row["name"],
        peer=Peer(uid=row["uid"], gid=row["gid"], pid=row["pid"]),
        created_at=from_micros(row["created_at"]),
        concurrency=row["concurrency"],
        dedupe=bool(row["dedupe"]),
        complete=bool(row["complete"]),
        cancelled_at=read_optional_time(row["cancelled_at"]),
        finished_at=read_optional_time(row["finished_at"]),
        webhook=row["webhook"],
    )


def _read_item(row: RowMapping) -> BatchItem:
    refused = row["error_code"] is not None
    unstarted = Verdict.CANCELLED if row["cancelled_at"] is not None else None
    verdict = Verdict.ERROR if refused else unstarted if row["verdict"] is None else Verdict(row["verdict"])
    return BatchItem(
        line=row["line"],
        input_digest=row["input_digest"],
        attempt_id=row["attempt_id"],
        verdict=verdict,
        cause=row["cause"],
        rules=tuple(json.loads(row["rules"] or "[]")),
        error=Failure(code=row["error_code"], message=row["error_message"]) if refused else None,
    )
