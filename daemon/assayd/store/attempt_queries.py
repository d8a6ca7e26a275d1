"""Builds queries for attempts: pages and summaries, and which finished attempts are deleted first.

Attempts are deleted in order of age. The attempts of a batch that is unfinished or still receives lines
are kept, because a line without a verdict would run again; only the bundles of these attempts can be
deleted. When the first attempt of a batch is deleted, the batch's list of lines is deleted too. The other
attempts of the batch stay until their retention period ends.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    tuple_,
    union,
    update,
)

from assayd.errors import RequestError
from assayd.model.attempt import Attempt, State
from assayd.model.records import AttemptCount, AttemptPage, AttemptQuery, SlowAttempt, Summary
from assayd.store import tables
from assayd.store.tables import (
    attempts,
    batch_items,
    batches,
    from_micros,
    labels,
    library_entries,
    runs,
    submissions,
    to_micros,
    verdicts,
)

# SQLAlchemy types a select by its columns; rows are read by name here.
Statement = Select[Any]
Condition = ColumnElement[bool]

MOST_LISTED = 500


def select_page(attempt: Statement, query: AttemptQuery) -> Statement:
    """Return the statement that selects one page of attempts, newest first, and one more attempt.

    Args:
        attempt: the statement that selects attempts joined with their verdicts.
        query: the filters, the cursor and the limit.

    Raises:
        RequestError: ``invalid``, for a malformed cursor.
    """
    return (
        attempt.where(*build_conditions(query))
        .order_by(attempts.c.created_at.desc(), attempts.c.id.desc())
        .limit(_get_page_limit(query) + 1)
    )


def page(found: Sequence[Attempt], query: AttemptQuery) -> AttemptPage:
    """Return a page of at most `query.limit` attempts, with a cursor if more attempts follow."""
    limit = _get_page_limit(query)
    shown = tuple(found[:limit])
    return AttemptPage(attempts=shown, next_cursor=_build_cursor(shown[-1]) if len(found) > limit else None)


def _get_page_limit(query: AttemptQuery) -> int:
    return min(max(query.limit, 1), MOST_LISTED)


def build_conditions(query: AttemptQuery) -> list[Condition]:
    """Return the SQL conditions of a query, for attempts that are joined with their verdicts.

    Raises: RequestError ``invalid``, for a malformed cursor.
    """
    conditions = [_build_label_condition(name, value) for name, value in query.labels]
    if query.id_prefix is not None:
        # A range, so that the primary key's index is used; "a" sorts after every letter of a ULID.
        conditions += [attempts.c.id >= query.id_prefix, attempts.c.id < query.id_prefix + "a"]
    if query.state is not None:
        finished = verdicts.c.attempt_id.is_not(None)
        conditions.append(finished if query.state is State.FINISHED else ~finished)
    equal = (
        (verdicts.c.verdict, query.verdict and query.verdict.value),
        (attempts.c.kind, query.kind),
        (attempts.c.batch_id, query.batch_id),
        (verdicts.c.cause, query.cause),
        (attempts.c.uid, query.uid),
    )
    conditions += [column == value for column, value in equal if value is not None]
    if query.node is not None:
        conditions.append(build_node_condition(query.node))
    if query.distrusted is not None:
        marked = verdicts.c.distrusted_at.is_not(None)
        conditions.append(marked if query.distrusted else ~marked)
    # The rules are a JSON list in one column, so this scans the newest attempts.
    if query.rule is not None:
        conditions.append(verdicts.c.rules.contains(f'"{query.rule}"', autoescape=True))
    if query.since is not None:
        conditions.append(attempts.c.created_at >= to_micros(query.since))
    if query.cursor is not None:
        conditions.append(_after_cursor(query.cursor))
    return conditions


def build_node_condition(node: str | ColumnElement[str]) -> Condition:
    """Return the SQL condition that a node reported the verdict.

    Runs on a single host are excluded by their non-empty `generation`.
    """
    same = (runs.c.attempt_id == verdicts.c.attempt_id) & (runs.c.run_number == verdicts.c.run_number)
    return select(runs.c.daemon_id).where(same, runs.c.daemon_id == node, runs.c.generation == "").exists()


def _build_label_condition(name: str, value: str) -> Condition:
    # Correlated, so that the scan of the newest attempts ends when the page is full; IN would sort all of
    # them.
    same = labels.c.attempt_id == attempts.c.id
    return select(labels.c.name).where(same, labels.c.name == name, labels.c.value == value).exists()


def _build_cursor(last: Attempt) -> str:
    return f"{to_micros(last.created_at)}.{last.id}"


def _after_cursor(cursor: str) -> Condition:
    micros, dot, attempt_id = cursor.partition(".")
    if not (dot and micros.isascii() and micros.isdigit() and len(micros) <= 18):
        raise RequestError("invalid", "invalid cursor; pass the `next_cursor` of a page", field="cursor")
    # A row comparison, which uses the indexes. With OR, a server would scan all pages before this one.
    return tuple_(attempts.c.created_at, attempts.c.id) < tuple_(int(micros), attempt_id)


MAX_COUNTS = 10_000
MAX_RULE_LISTS = 5_000
"""Distinct rule lists to count, the most frequent first: untrusted code chooses them."""
MAX_RULES = 100
MAX_SLOWEST = 10
_FINISHED_ATTEMPTS = attempts.join(verdicts, verdicts.c.attempt_id == attempts.c.id)


def summary(connection: Connection, query: AttemptQuery, bucket_s: int) -> Summary:
    """Return counts, frequent rules and the slowest attempts of the finished attempts that match a query.

    The counts are grouped by intervals of `bucket_s` seconds.
    """
    wanted = build_conditions(query)
    return Summary(
        counts=_fetch_counts(connection, wanted, bucket_s),
        rules=_fetch_rule_counts(connection, wanted),
        slowest=_fetch_slowest(connection, wanted),
    )


def _fetch_counts(connection: Connection, wanted: list[Any], bucket_s: int) -> tuple[AttemptCount, ...]:
    begins = (attempts.c.created_at // (bucket_s * 1_000_000)).label("begins")
    columns = (begins, attempts.c.kind, verdicts.c.verdict, verdicts.c.cause)
    statement = (
        select(*columns, func.count().label("number"))
        .select_from(_FINISHED_ATTEMPTS)
        .where(*wanted)
        .group_by(*columns)
        .order_by(begins.desc())
        .limit(MAX_COUNTS)
    )
    return tuple(
        AttemptCount(
            at=from_micros(int(row.begins) * bucket_s * 1_000_000),
            kind=row.kind,
            verdict=row.verdict,
            cause=row.cause,
            number=row.number,
        )
        for row in connection.execute(statement)
    )


def _fetch_rule_counts(connection: Connection, wanted: list[Any]) -> tuple[tuple[str, int], ...]:
    number = func.count().label("number")
    statement = (
        select(verdicts.c.rules, number)
        .select_from(_FINISHED_ATTEMPTS)
        .where(*wanted, verdicts.c.rules != "[]")
        .group_by(verdicts.c.rules)
        .order_by(number.desc())
        .limit(MAX_RULE_LISTS)
    )
    counted: Counter[str] = Counter()
    for row in connection.execute(statement):
        for rule in json.loads(row.rules):
            counted[rule] += row.number
    return tuple(counted.most_common(MAX_RULES))


def _fetch_slowest(connection: Connection, wanted: list[Any]) -> tuple[SlowAttempt, ...]:
    took = (verdicts.c.finished_at - verdicts.c.started_at).label("took")
    statement = (
        select(attempts.c.id, attempts.c.kind, verdicts.c.verdict, took)
        .select_from(_FINISHED_ATTEMPTS)
        .where(*wanted, verdicts.c.started_at.is_not(None), verdicts.c.finished_at.is_not(None))
        .order_by(took.desc())
        .limit(MAX_SLOWEST)
    )
    return tuple(
        SlowAttempt(attempt_id=row.id, kind=row.kind, verdict=row.verdict, took_s=row.took / 1_000_000)
        for row in connection.execute(statement)
    )


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
_JUDGED_IDS = select(verdicts.c.attempt_id)
_WAITING_ATTEMPTS = union(  # UNION counts equal submissions once, because they are stored once.
    select(attempts.c.uid, attempts.c.submission).where(
        ~_JUDGED_IDS.where(verdicts.c.attempt_id == attempts.c.id).exists()
    ),
    select(batches.c.uid, batch_items.c.submission)
    .join_from(batches, batch_items, batches.c.id == batch_items.c.batch_id)
    .where(
        batches.c.finished_at.is_(None),
        ~_JUDGED_IDS.where(verdicts.c.attempt_id == batch_items.c.attempt_id).exists(),
    ),
).subquery()
_SELECT_DOC_BYTES = (
    select(_WAITING_ATTEMPTS.c.uid, func.sum(func.length(submissions.c.document)))
    .join_from(_WAITING_ATTEMPTS, submissions, submissions.c.digest == _WAITING_ATTEMPTS.c.submission)
    .group_by(_WAITING_ATTEMPTS.c.uid)
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
_CLEAR_BUNDLES = (
    update(verdicts).where(verdicts.c.attempt_id.in_(_IDS)).values(bundle=None, artifacts="[]", disk_bytes=0)
)
_IS_APPROVED = select(library_entries.c.name).where(library_entries.c.attempt_id == attempts.c.id).exists()
"""Approved attempts are kept; their bundles are deleted last."""
_USED = select(attempts.c.id, attempts.c.submission, attempts.c.batch_id).where(attempts.c.id.in_(_IDS))
_LISTED_DIGESTS = select(batch_items.c.submission).where(batch_items.c.batch_id.in_(_BATCHES)).distinct()


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
class RemovalQuery:
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


def read_usage(connection: Connection) -> dict[int, StoredUsage]:
    """Return the stored data of each user, by user id."""
    finished = {
        uid: (count, int(size), int(texts) + count * ROW_BYTES)
        for uid, count, size, texts in connection.execute(_USAGE)
    }
    documents = {uid: int(size) for uid, size in connection.execute(_SELECT_DOC_BYTES)}
    held = {}
    for uid in finished.keys() | documents.keys():
        count, size, rows_size = finished.get(uid, (0, 0, 0))
        held[uid] = StoredUsage(
            attempts=count, disk_bytes=size, row_bytes=rows_size, document_bytes=documents.get(uid, 0)
        )
    return held


def estimate_row_bytes(connection: Connection, attempt_ids: Sequence[str]) -> dict[str, int]:
    """Return the estimated size in bytes of each attempt's rows, by attempt id."""
    found = connection.execute(_SIZES, {"ids": list(attempt_ids)})
    return {attempt_id: size + ROW_BYTES for attempt_id, size in found}


def select_removable(attempt: Statement, wanted: RemovalQuery) -> Statement:
    """Return the statement that selects the attempts that can be deleted, oldest first.

    Args:
        attempt: the statement that selects attempts joined with their verdicts.
        wanted: the condition that attempts must meet. Old attempts are deleted together with batches that
            no client has completed.
    """
    conditions: list[Condition] = [verdicts.c.attempt_id.is_not(None)]
    conditions.append(_IS_APPROVED if wanted.approved else ~_IS_APPROVED)
    if wanted.bundled:
        conditions.append(verdicts.c.bundle.is_not(None))
    else:
        conditions.append(~_is_needed_by_batch(wanted))
    if wanted.before is not None:
        conditions.append(attempts.c.created_at < tables.to_micros(wanted.before))
    if wanted.uid is not None:
        conditions.append(attempts.c.uid == wanted.uid)
    ordered = attempt.where(*conditions).order_by(attempts.c.created_at, attempts.c.id)
    return ordered.limit(wanted.limit).offset(wanted.offset)


def _is_needed_by_batch(wanted: RemovalQuery) -> Condition:
    """Return the SQL condition that a batch still needs the verdict of an attempt."""
    unfinished: list[Condition] = [batches.c.finished_at.is_(None), batches.c.cancelled_at.is_(None)]
    if wanted.before is not None:
        limit = tables.to_micros(wanted.before)
        unfinished.append(or_(batches.c.complete == 1, batches.c.created_at >= limit))
    needing = or_(and_(*unfinished), batches.c.id.in_(sorted(wanted.uploads)))
    return select(batches.c.id).where(batches.c.id == attempts.c.batch_id, needing).exists()


def record_bundle_removal(connection: Connection, attempt_ids: Sequence[str]) -> None:
    """Record that the bundles of the given attempts were deleted."""
    connection.execute(_CLEAR_BUNDLES, {"ids": list(attempt_ids)})
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
    delete_batches(connection, sorted({row.batch_id for row in used if row.batch_id}))
    connection.execute(_REMOVE_ATTEMPTS, {"ids": ids})
    connection.execute(_REMOVE_SUBMISSIONS, {"digests": sorted({row.submission for row in used})})


def delete_empty_batches(connection: Connection, before: datetime, unless: frozenset[str]) -> None:
    """Delete old batches that ended without any attempt, because all of their lines were malformed.

    `before` limits their creation time. The batches in `unless` are kept.
    """
    over = or_(
        batches.c.finished_at.is_not(None), batches.c.cancelled_at.is_not(None), batches.c.complete == 0
    )
    bare = ~select(attempts.c.id).where(attempts.c.batch_id == batches.c.id).exists()
    old = select(batches.c.id).where(batches.c.created_at < tables.to_micros(before), over, bare)
    delete_batches(connection, sorted(set(connection.execute(old).scalars()) - unless))


def delete_batches(connection: Connection, batch_ids: Sequence[str]) -> None:
    """Delete batches and their lines, but not their attempts."""
    ids = list(batch_ids)
    if ids:
        digests = list(connection.execute(_LISTED_DIGESTS, {"batches": ids}).scalars())
        connection.execute(_REMOVE_BATCHES, {"batches": ids})
        connection.execute(_REMOVE_SUBMISSIONS, {"digests": [digest for digest in digests if digest]})
