"""Counts providers' answers and their results by kind, provider and week.

The counts are computed from the tables of chains. The query uses an index, reads a bounded number of the
newest chains row by row, and doesn't read submitted code. Each generation and each repair is counted in the
week in which it began.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection, Select, Table, select

from assayd.clock import encode_crockford
from assayd.store.tables import from_micros, generations, repair_fixes, repairs, to_micros, verdicts
from assayd_chains.model import Outcome

MOST_CHAINS = 2_000
"""Maximum number of generations, and of repairs, to read, beginning with the newest."""
_MAX_IDS_PER_QUERY = 500
"""Maximum number of ids in one SQL statement."""
_RANDOM_BITS = 80

Key = tuple[str, str, date]


@dataclass(slots=True)
class RuleCount:
    """The attempts in repairs that broke one rule.

    `answered` counts the attempts that another attempt followed, and `cleared` counts the following attempts
    that no longer broke the rule.
    """

    attempts: int = 0
    answered: int = 0
    cleared: int = 0


@dataclass(slots=True)
class AnswerCount:
    """The counts of one kind, provider and week.

    The field `answers` counts only the answers of validated generations.
    """

    generations: int = 0
    validated: int = 0
    validated_at_once: int = 0
    answers: int = 0
    repairs: int = 0
    repaired: int = 0
    hinted: int = 0
    hinted_repaired: int = 0
    rules: defaultdict[str, RuleCount] = field(default_factory=lambda: defaultdict(RuleCount))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCounts:
    """The counts by kind, provider and week, where a week is identified by its Monday.

    The field `complete` is False if there are more chains than the query's limit.
    """

    counts: Mapping[Key, AnswerCount]
    complete: bool


def get_first_week_start(now: datetime, weeks: int) -> datetime:
    """Return the start of the first of `weeks` weeks, of which the last is the current week."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=now.weekday(), weeks=weeks - 1)


def count_answers(connection: Connection, uid: int | None, since: datetime, kind: str | None) -> AnswerCounts:
    """Count providers' answers in chains that began at or after `since`.

    If `uid` or `kind` is None, all users or kinds are counted.
    """
    counts: defaultdict[Key, AnswerCount] = defaultdict(AnswerCount)
    columns = (repairs.c.attempt_id, repairs.c.generation_id, repairs.c.hint)
    fixed = connection.execute(_select_newest_chains(repairs, columns, uid, since, kind)).all()
    fixes = _map_attempts_of_fixes(connection, [row.id for row in fixed])
    of_generation = Counter({row.generation_id: 0 for row in fixed})
    for row in fixed:
        of_generation[row.generation_id] += len(fixes.get(row.id, ()))
        if row.outcome is not None:
            _count_repair_outcome(counts[_build_count_key(row)], row.outcome, hinted=row.hint is not None)
    written = 0
    for row in connection.execute(
        _select_newest_chains(generations, (generations.c.drafts,), uid, since, kind)
    ):
        written += 1
        if row.outcome is not None:
            _count_generation_outcome(
                counts[_build_count_key(row)], row.outcome, json.loads(row.drafts), of_generation[row.id]
            )
    tries = {row.id: [row.attempt_id, *fixes.get(row.id, ())] for row in fixed}
    broken = _map_broken_rules(
        connection, [attempt_id for some in tries.values() for attempt_id in some if attempt_id]
    )
    for row in fixed:
        _count_cleared_rules(
            counts[_build_count_key(row)].rules, [one for one in tries[row.id] if one in broken], broken
        )
    return AnswerCounts(counts=dict(counts), complete=max(len(fixed), written) < MOST_CHAINS)


def _select_newest_chains(
    table: Table, columns: Sequence[Any], uid: int | None, since: datetime, kind: str | None
) -> Select[Any]:
    """Return the query for the newest chains of one user or, if `uid` is None, of all users.

    The query uses an index. For all users, this is the index of the ids, because ids begin with a time.
    """
    shown = (table.c.id, table.c.kind, table.c.provider, table.c.started_at, table.c.outcome, *columns)
    statement = select(*shown).order_by(table.c.started_at.desc()).limit(MOST_CHAINS)
    if uid is None:
        first = encode_crockford(to_micros(since) // 1000 << _RANDOM_BITS)
        statement = select(*shown).where(table.c.id >= first).order_by(table.c.id.desc()).limit(MOST_CHAINS)
    else:
        statement = statement.where(table.c.uid == uid, table.c.started_at >= to_micros(since))
    return statement if kind is None else statement.where(table.c.kind == kind)


def _build_count_key(row: Any) -> Key:
    began = from_micros(row.started_at).astimezone(UTC).date()
    return row.kind, row.provider, began - timedelta(days=began.weekday())


def _map_attempts_of_fixes(connection: Connection, ids: Sequence[str]) -> Mapping[str, list[str | None]]:
    """Return the attempt ids of each repair's fixes, in order, with None for a fix that wasn't run."""
    found: defaultdict[str, list[str | None]] = defaultdict(list)
    columns = (repair_fixes.c.repair_id, repair_fixes.c.attempt_id)
    for some in _chunk_ids(ids):
        wanted = select(*columns).where(repair_fixes.c.repair_id.in_(some))
        for row in connection.execute(wanted.order_by(repair_fixes.c.repair_id, repair_fixes.c.number)):
            found[row.repair_id].append(row.attempt_id)
    return found


def _map_broken_rules(connection: Connection, ids: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Return the rules that each finished attempt broke, by attempt id."""
    found = {}
    for some in _chunk_ids(ids):
        wanted = select(verdicts.c.attempt_id, verdicts.c.rules).where(verdicts.c.attempt_id.in_(some))
        for row in connection.execute(wanted):
            found[row.attempt_id] = frozenset(json.loads(row.rules))
    return found


def _chunk_ids(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the ids in groups that are small enough for one SQL statement."""
    return (ids[start : start + _MAX_IDS_PER_QUERY] for start in range(0, len(ids), _MAX_IDS_PER_QUERY))


def _count_repair_outcome(count: AnswerCount, outcome: str, *, hinted: bool) -> None:
    good = Outcome.from_repair_outcome_name(outcome) is Outcome.VALIDATED
    count.repairs += 1
    count.repaired += good
    count.hinted += hinted
    count.hinted_repaired += hinted and good


def _count_generation_outcome(count: AnswerCount, outcome: str, drafts: Sequence[Any], fixes: int) -> None:
    count.generations += 1
    if outcome == Outcome.VALIDATED:
        answers = len(drafts) + fixes
        count.validated += 1
        count.validated_at_once += answers == 1
        count.answers += answers


def _count_cleared_rules(
    rules: defaultdict[str, RuleCount], tries: Sequence[str], broken: Mapping[str, frozenset[str]]
) -> None:
    """Add a repair's attempts, in order, to the counts of the rules that they broke.

    Validated attempts broke no rules.
    """
    for attempt_id in tries:
        for rule in broken[attempt_id]:
            rules[rule].attempts += 1
    for before, after in pairwise(tries):
        for rule in broken[before]:
            rules[rule].answered += 1
            rules[rule].cleared += rule not in broken[after]
