"""Which finished attempts may go, oldest first, and what goes with them.

While a batch is unfinished its attempts stay: without its verdict a line would be run again. Once one of them
goes, the list of lines goes with it; the other attempts stay until it is their turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import BindParameter, Connection, bindparam, delete, func, or_, select

from assayd.ports.store import StoredUsage
from assayd.store import rows
from assayd.store.listing import Condition, Statement
from assayd.store.tables import attempts, batch_items, batches, submissions, verdicts

_USAGE = select(func.count(), func.coalesce(func.sum(verdicts.c.disk_bytes), 0))
_IDS: BindParameter[str] = bindparam("ids", expanding=True)
_DIGESTS: BindParameter[str] = bindparam("digests", expanding=True)
_BATCHES: BindParameter[str] = bindparam("batches", expanding=True)
_REMOVE_ATTEMPTS = delete(attempts).where(attempts.c.id.in_(_IDS))
_REMOVE_BATCHES = delete(batches).where(batches.c.id.in_(_BATCHES))
_REMOVE_SUBMISSIONS = delete(submissions).where(
    submissions.c.digest.in_(_DIGESTS),
    ~select(attempts.c.id).where(attempts.c.submission == submissions.c.digest).exists(),
    ~select(batch_items.c.line).where(batch_items.c.submission == submissions.c.digest).exists(),
)
_USED = select(attempts.c.submission, attempts.c.batch_id).where(attempts.c.id.in_(_IDS))
_LISTED = select(batch_items.c.submission).where(batch_items.c.batch_id.in_(_BATCHES)).distinct()


def usage(connection: Connection) -> StoredUsage:
    """Count the finished attempts, and what their bundles take on disk."""
    count, size = connection.execute(_USAGE).one()
    return StoredUsage(attempts=count, disk_bytes=int(size))


def removable(attempt: Statement, before: datetime | None) -> Statement:
    """Return the statement for attempts that may go, oldest first.

    Args:
        attempt: selects attempts, joined with their verdicts.
        before: only those that are older, those of batches that nobody has sent to their end included.
    """
    unfinished: list[Condition] = [batches.c.finished_at.is_(None), batches.c.cancelled_at.is_(None)]
    old: list[Condition] = []
    if before is not None:
        limit = rows.to_micros(before)
        unfinished.append(or_(batches.c.complete == 1, batches.c.created_at >= limit))
        old.append(attempts.c.created_at < limit)
    needed = select(batches.c.id).where(batches.c.id == attempts.c.batch_id, *unfinished).exists()
    return attempt.where(verdicts.c.attempt_id.is_not(None), ~needed, *old).order_by(
        attempts.c.created_at, attempts.c.id
    )


def remove(connection: Connection, attempt_ids: Sequence[str]) -> None:
    """Forget attempts, the batches that they were in, and submissions that nothing refers to."""
    ids = list(attempt_ids)
    used = connection.execute(_USED, {"ids": ids}).all()
    remove_batches(connection, sorted({row.batch_id for row in used if row.batch_id}))
    connection.execute(_REMOVE_ATTEMPTS, {"ids": ids})
    connection.execute(_REMOVE_SUBMISSIONS, {"digests": sorted({row.submission for row in used})})


def remove_bare_batches(connection: Connection, before: datetime) -> None:
    """Forget batches that are old, have ended, and have no attempts: all of their lines were malformed."""
    over = or_(
        batches.c.finished_at.is_not(None), batches.c.cancelled_at.is_not(None), batches.c.complete == 0
    )
    bare = ~select(attempts.c.id).where(attempts.c.batch_id == batches.c.id).exists()
    old = select(batches.c.id).where(batches.c.created_at < rows.to_micros(before), over, bare)
    remove_batches(connection, list(connection.execute(old).scalars()))


def remove_batches(connection: Connection, batch_ids: Sequence[str]) -> None:
    """Forget batches with their lines, but not the attempts that these became."""
    ids = list(batch_ids)
    if ids:
        digests = list(connection.execute(_LISTED, {"batches": ids}).scalars())
        connection.execute(_REMOVE_BATCHES, {"batches": ids})
        connection.execute(_REMOVE_SUBMISSIONS, {"digests": [digest for digest in digests if digest]})
