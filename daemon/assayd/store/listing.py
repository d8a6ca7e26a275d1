"""Builds the queries, the cursors and the summaries for pages of attempts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select, tuple_

from assayd.errors import RequestError
from assayd.model.attempt import Attempt, State
from assayd.model.records import Page, Query, Slowest, Summary, TimeCount
from assayd.store.rows import from_micros, to_micros
from assayd.store.tables import attempts, labels, runs, verdicts

# SQLAlchemy types a select by its columns; rows are read by name here.
Statement = Select[Any]
Condition = ColumnElement[bool]

MOST_LISTED = 500


def listing(attempt: Statement, query: Query) -> Statement:
    """Return the statement that selects one page of attempts, newest first, and one more attempt.

    Args:
        attempt: the statement that selects attempts joined with their verdicts.
        query: the filters, the cursor and the limit.

    Raises:
        RequestError: ``invalid``, for a malformed cursor.
    """
    return (
        attempt.where(*conditions(query))
        .order_by(attempts.c.created_at.desc(), attempts.c.id.desc())
        .limit(_limit(query) + 1)
    )


def page(found: Sequence[Attempt], query: Query) -> Page:
    """Return a page of at most `query.limit` attempts, with a cursor if more attempts follow."""
    limit = _limit(query)
    shown = tuple(found[:limit])
    return Page(attempts=shown, next_cursor=_to_cursor(shown[-1]) if len(found) > limit else None)


def _limit(query: Query) -> int:
    return min(max(query.limit, 1), MOST_LISTED)


def conditions(query: Query) -> list[Condition]:
    """Return the SQL conditions of a query, for attempts that are joined with their verdicts.

    Raises: RequestError ``invalid``, for a malformed cursor.
    """
    conditions = [_has_label(name, value) for name, value in query.labels]
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
        conditions.append(from_node(query.node))
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


def from_node(node: str | ColumnElement[str]) -> Condition:
    """Return the SQL condition that a node reported the verdict.

    Runs on a single host are excluded by their non-empty `generation`.
    """
    same = (runs.c.attempt_id == verdicts.c.attempt_id) & (runs.c.run_number == verdicts.c.run_number)
    return select(runs.c.daemon_id).where(same, runs.c.daemon_id == node, runs.c.generation == "").exists()


def _has_label(name: str, value: str) -> Condition:
    # Correlated, so that the scan of the newest attempts ends when the page is full; IN would sort all of
    # them.
    same = labels.c.attempt_id == attempts.c.id
    return select(labels.c.name).where(same, labels.c.name == name, labels.c.value == value).exists()


def _to_cursor(last: Attempt) -> str:
    return f"{to_micros(last.created_at)}.{last.id}"


def _after_cursor(cursor: str) -> Condition:
    micros, dot, attempt_id = cursor.partition(".")
    if not (dot and micros.isascii() and micros.isdigit() and len(micros) <= 18):
        raise RequestError("invalid", "invalid cursor; pass the `next_cursor` of a page", field="cursor")
    # A row comparison, which uses the indexes. With OR, a server would scan all pages before this one.
    return tuple_(attempts.c.created_at, attempts.c.id) < tuple_(int(micros), attempt_id)


MOST_COUNTS = 10_000
MOST_RULE_LISTS = 5_000
"""Distinct rule lists to count, the most frequent first: untrusted code chooses them."""
MOST_RULES = 100
MOST_SLOWEST = 10
_FINISHED = attempts.join(verdicts, verdicts.c.attempt_id == attempts.c.id)


def summary(connection: Connection, query: Query, bucket_s: int) -> Summary:
    """Count the finished attempts that match a query, grouped by creation time."""
    wanted = conditions(query)
    return Summary(
        counts=_fetch_counts(connection, wanted, bucket_s),
        rules=_fetch_rule_counts(connection, wanted),
        slowest=_fetch_slowest(connection, wanted),
    )


def _fetch_counts(connection: Connection, wanted: list[Any], bucket_s: int) -> tuple[TimeCount, ...]:
    begins = (attempts.c.created_at // (bucket_s * 1_000_000)).label("begins")
    columns = (begins, attempts.c.kind, verdicts.c.verdict, verdicts.c.cause)
    statement = (
        select(*columns, func.count().label("number"))
        .select_from(_FINISHED)
        .where(*wanted)
        .group_by(*columns)
        .order_by(begins.desc())
        .limit(MOST_COUNTS)
    )
    return tuple(
        TimeCount(
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
        .select_from(_FINISHED)
        .where(*wanted, verdicts.c.rules != "[]")
        .group_by(verdicts.c.rules)
        .order_by(number.desc())
        .limit(MOST_RULE_LISTS)
    )
    counted: Counter[str] = Counter()
    for row in connection.execute(statement):
        for rule in json.loads(row.rules):
            counted[rule] += row.number
    return tuple(counted.most_common(MOST_RULES))


def _fetch_slowest(connection: Connection, wanted: list[Any]) -> tuple[Slowest, ...]:
    took = (verdicts.c.finished_at - verdicts.c.started_at).label("took")
    statement = (
        select(attempts.c.id, attempts.c.kind, verdicts.c.verdict, took)
        .select_from(_FINISHED)
        .where(*wanted, verdicts.c.started_at.is_not(None), verdicts.c.finished_at.is_not(None))
        .order_by(took.desc())
        .limit(MOST_SLOWEST)
    )
    return tuple(
        Slowest(attempt_id=row.id, kind=row.kind, verdict=row.verdict, took_s=row.took / 1_000_000)
        for row in connection.execute(statement)
    )
