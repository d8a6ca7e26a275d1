"""What attempts came to, counted by the database: by verdict and cause over time, by rule, the slowest."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from sqlalchemy import Connection, func, select

from assayd.model.records import Query, Slowest, Summary, TimeCount
from assayd.store.listing import conditions
from assayd.store.rows import from_micros
from assayd.store.tables import attempts, verdicts

MOST_COUNTS = 10_000
MOST_RULE_LISTS = 5_000
"""Distinct lists of rules that are counted, those of the most attempts first: code chooses them."""
MOST_RULES = 100
MOST_SLOWEST = 10
_FINISHED = attempts.join(verdicts, verdicts.c.attempt_id == attempts.c.id)


def summary(connection: Connection, query: Query, bucket_s: int) -> Summary:
    """Count the finished attempts that a query wants, by when they were created."""
    wanted = conditions(query)
    return Summary(
        counts=_counts(connection, wanted, bucket_s),
        rules=_rules(connection, wanted),
        slowest=_slowest(connection, wanted),
    )


def _counts(connection: Connection, wanted: list[Any], bucket_s: int) -> tuple[TimeCount, ...]:
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


def _rules(connection: Connection, wanted: list[Any]) -> tuple[tuple[str, int], ...]:
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


def _slowest(connection: Connection, wanted: list[Any]) -> tuple[Slowest, ...]:
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
