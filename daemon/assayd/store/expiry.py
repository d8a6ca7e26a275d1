"""Decides which finished attempts are deleted first, and which rows are deleted with them.

Attempts are deleted in order of age. The attempts of a batch that is unfinished or still receives lines are
kept, because a line without a verdict would run again; only the bundles of these attempts can be deleted.
When the first attempt of a batch is deleted, the batch's list of lines is deleted too. The other attempts
of the batch stay until their retention period ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import BindParameter, Connection, and_, bindparam, delete, func, or_, select, union, update

from assayd.store import rows
from assayd.store.listing import Condition, Statement
from assayd.store.tables import attempts, batch_items, batches, library_entries, submissions, verdicts

ROW_BYTES = 4096
"""Estimated bytes of a finished attempt's rows, in addition to its submission."""
_USAGE = (
    select(
        attempts.c.uid,
        func.count(),
        func.coalesce(func.sum(verdicts.c.disk_bytes), 0),
        func.coalesce(func.sum(func.length(submissions.c.document)), 0),
    )
    .join_from(verdicts, attempts, attempts.c.id == verdicts.c.attempt_id)
    .join(submissions, submissions.c.digest == attempts.c.submission)
    .group_by(attempts.c.uid)
)
_JUDGED = select(verdicts.c.attempt_id)
_WAITING = union(  # UNION counts equal submissions once, because they are stored once.
    select(attempts.c.uid, attempts.c.submission).where(
        ~_JUDGED.where(verdicts.c.attempt_id == attempts.c.id).exists()
    ),
    select(batches.c.uid, batch_items.c.submission)
    .join_from(batches, batch_items, batches.c.id == batch_items.c.batch_id)
    .where(
        batches.c.finished_at.is_(None),
        ~_JUDGED.where(verdicts.c.attempt_id == batch_items.c.attempt_id).exists(),
    ),
).subquery()
_DOCUMENTS = (
    select(_WAITING.c.uid, func.sum(func.length(submissions.c.document)))
    .join_from(_WAITING, submissions, submissions.c.digest == _WAITING.c.submission)
    .group_by(_WAITING.c.uid)
)
_IDS: BindParameter[str] = bindparam("ids", expanding=True)
_SIZES = (
    select(attempts.c.id, func.length(submissions.c.document))
    .join(submissions, submissions.c.digest == attempts.c.submission)
    .where(attempts.c.id.in_(_IDS))
)
_DIGESTS: BindParameter[str] = bindparam("digests", expanding=True)
_BATCHES: BindParameter[str] = bindparam("batches", expanding=True)
_REMOVE_ATTEMPTS = delete(attempts).where(attempts.c.id.in_(_IDS))
_REMOVE_BATCHES = delete(batches).where(batches.c.id.in_(_BATCHES))
_REMOVE_SUBMISSIONS = delete(submissions).where(
    submissions.c.digest.in_(_DIGESTS),
    ~select(attempts.c.id).where(attempts.c.submission == submissions.c.digest).exists(),
    ~select(batch_items.c.line).where(batch_items.c.submission == submissions.c.digest).exists(),
)
_FORGET_BUNDLES = update(library_entries).where(library_entries.c.attempt_id.in_(_IDS)).values(bundle=None)
_STRIP = (
    update(verdicts).where(verdicts.c.attempt_id.in_(_IDS)).values(bundle=None, artifacts="[]", disk_bytes=0)
)
_APPROVED = select(library_entries.c.name).where(library_entries.c.attempt_id == attempts.c.id).exists()
"""Approved attempts are kept; their bundles are deleted last."""
_USED = select(attempts.c.id, attempts.c.submission, attempts.c.batch_id).where(attempts.c.id.in_(_IDS))
_LISTED = select(batch_items.c.submission).where(batch_items.c.batch_id.in_(_BATCHES)).distinct()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUsage:
    """The stored data of a user, in numbers of attempts and bytes.

    `document_bytes` is the size of the submissions without a verdict, including lines of cancelled batches;
    identical submissions are counted once. `row_bytes` is the size of the submissions of finished attempts
    plus the estimated size of the attempts' other rows.
    """

    attempts: int = 0
    disk_bytes: int = 0
    row_bytes: int = 0
    document_bytes: int = 0

    @property
    def held_bytes(self) -> int:
        """Return the size of finished attempts in bytes, including bundles and rows."""
        return self.disk_bytes + self.row_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Removable:
    """A query for finished attempts that can be deleted. The value None matches any time or any user.

    `uploads` contains the batches that are still receiving lines. `bundled` selects the attempts with a
    bundle, even if an unfinished batch needs their verdict. `approved` selects only attempts that have an
    entry in the library.
    """

    before: datetime | None = None
    uid: int | None = None
    uploads: frozenset[str] = frozenset()
    bundled: bool = False
    approved: bool = False
    limit: int = 100
    offset: int = 0


def usage(connection: Connection) -> dict[int, StoredUsage]:
    """Return the stored data of each user, by user id."""
    finished = {
        uid: (count, int(size), int(texts) + count * ROW_BYTES)
        for uid, count, size, texts in connection.execute(_USAGE)
    }
    documents = {uid: int(size) for uid, size in connection.execute(_DOCUMENTS)}
    held = {}
    for uid in finished.keys() | documents.keys():
        count, size, rows_size = finished.get(uid, (0, 0, 0))
        held[uid] = StoredUsage(
            attempts=count, disk_bytes=size, row_bytes=rows_size, document_bytes=documents.get(uid, 0)
        )
    return held


def row_bytes(connection: Connection, attempt_ids: Sequence[str]) -> dict[str, int]:
    """Return the estimated size in bytes of each attempt's rows, by attempt id."""
    found = connection.execute(_SIZES, {"ids": list(attempt_ids)})
    return {attempt_id: size + ROW_BYTES for attempt_id, size in found}


def removable(attempt: Statement, wanted: Removable) -> Statement:
    """Return the statement that selects the attempts that can be deleted, oldest first.

    Args:
        attempt: the statement that selects attempts joined with their verdicts.
        wanted: the condition that attempts must meet. Old attempts are deleted together with batches that
            no client has completed.
    """
    conditions: list[Condition] = [verdicts.c.attempt_id.is_not(None)]
    conditions.append(_APPROVED if wanted.approved else ~_APPROVED)
    if wanted.bundled:
        conditions.append(verdicts.c.bundle.is_not(None))
    else:
        conditions.append(~_is_needed_by_batch(wanted))
    if wanted.before is not None:
        conditions.append(attempts.c.created_at < rows.to_micros(wanted.before))
    if wanted.uid is not None:
        conditions.append(attempts.c.uid == wanted.uid)
    ordered = attempt.where(*conditions).order_by(attempts.c.created_at, attempts.c.id)
    return ordered.limit(wanted.limit).offset(wanted.offset)


def _is_needed_by_batch(wanted: Removable) -> Condition:
    """Return the SQL condition that a batch still needs the verdict of an attempt."""
    unfinished: list[Condition] = [batches.c.finished_at.is_(None), batches.c.cancelled_at.is_(None)]
    if wanted.before is not None:
        limit = rows.to_micros(wanted.before)
        unfinished.append(or_(batches.c.complete == 1, batches.c.created_at >= limit))
    needing = or_(and_(*unfinished), batches.c.id.in_(sorted(wanted.uploads)))
    return select(batches.c.id).where(batches.c.id == attempts.c.batch_id, needing).exists()


def strip(connection: Connection, attempt_ids: Sequence[str]) -> None:
    """Record that the bundles of the given attempts were deleted."""
    connection.execute(_STRIP, {"ids": list(attempt_ids)})
    connection.execute(_FORGET_BUNDLES, {"ids": list(attempt_ids)})


def remove(connection: Connection, attempt_ids: Sequence[str], unless: frozenset[str]) -> None:
    """Delete attempts, the batches that contained them, and submissions that are no longer referenced.

    Args:
        connection: a connection inside a transaction.
        attempt_ids: the attempts to delete.
        unless: batches whose attempts are kept.
    """
    found = connection.execute(_USED, {"ids": list(attempt_ids)}).all()
    used = [row for row in found if row.batch_id not in unless]
    ids = [row.id for row in used]
    remove_batches(connection, sorted({row.batch_id for row in used if row.batch_id}))
    connection.execute(_REMOVE_ATTEMPTS, {"ids": ids})
    connection.execute(_REMOVE_SUBMISSIONS, {"digests": sorted({row.submission for row in used})})


def remove_bare_batches(connection: Connection, before: datetime, unless: frozenset[str]) -> None:
    """Delete old batches that ended without any attempt, because all of their lines were malformed."""
    over = or_(
        batches.c.finished_at.is_not(None), batches.c.cancelled_at.is_not(None), batches.c.complete == 0
    )
    bare = ~select(attempts.c.id).where(attempts.c.batch_id == batches.c.id).exists()
    old = select(batches.c.id).where(batches.c.created_at < rows.to_micros(before), over, bare)
    remove_batches(connection, sorted(set(connection.execute(old).scalars()) - unless))


def remove_batches(connection: Connection, batch_ids: Sequence[str]) -> None:
    """Delete batches and their lines, but not their attempts."""
    ids = list(batch_ids)
    if ids:
        digests = list(connection.execute(_LISTED, {"batches": ids}).scalars())
        connection.execute(_REMOVE_BATCHES, {"batches": ids})
        connection.execute(_REMOVE_SUBMISSIONS, {"digests": [digest for digest in digests if digest]})
