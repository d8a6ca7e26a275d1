"""Finds runs that are dead, and attempts that the broker accepted but that no node holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, bindparam, func, or_, select

from assayd.model.attempt import MAX_RUNS
from assayd.store import tables
from assayd.store.access import DatabaseAccess
from assayd_cluster.clock import LIVE_SINCE, NOW
from assayd_cluster.documents import LIVE_S
from assayd_cluster.nodes import FULL
from assayd_cluster.tables import dispatches, nodes

UNCLAIMED_S = 60.0
"""Seconds for which a message can be unclaimed before it is published again."""
TAKEN_S = 10.0
"""Seconds for which a message can be unclaimed if the queue is empty, i.e. the message has been taken."""
SILENT_S = 5.0
"""Minimum age in seconds of a silent run; a node sends the first events of a run within a second."""
FULL_S = 30.0
"""How old a silent run of a node is at least whose daemon has runs wait."""
_MICROS = 1_000_000

_RUN = tables.runs.c
_NEWEST = tables.runs.alias("newest")
_LATEST = (
    select(func.max(_NEWEST.c.run_number))
    .where(_NEWEST.c.attempt_id == dispatches.c.attempt_id)
    .scalar_subquery()
)
_EVENTS_OF_NODE = select(tables.events.c.seq).where(
    tables.events.c.attempt_id == dispatches.c.attempt_id, tables.events.c.seq > 1
)
"""The events of nodes; the gateway itself records the first event of an attempt."""
_PUBLISHED = select(
    dispatches.c.attempt_id,
    dispatches.c.published_at,
    _RUN.daemon_id,
    _RUN.run_number,
    _RUN.leased_at,
    _RUN.expires_at,
    and_(_RUN.run_number < MAX_RUNS, ~_EVENTS_OF_NODE.exists()).label("silent"),
    NOW.label("now"),
).select_from(
    dispatches.outerjoin(
        tables.runs, and_(_RUN.attempt_id == dispatches.c.attempt_id, _RUN.run_number == _LATEST)
    )
)
_OLD = _PUBLISHED.where(
    dispatches.c.gateway_id == bindparam("gateway"),
    dispatches.c.published_at.is_not(None),
    or_(
        dispatches.c.published_at < NOW - int(TAKEN_S * _MICROS),
        _RUN.leased_at < NOW - int(SILENT_S * _MICROS),
    ),
)
_ONE = _PUBLISHED.where(dispatches.c.attempt_id == bindparam("attempt"))
_LISTED = select(nodes.c.name, nodes.c.runs, (nodes.c.why == FULL).label("full")).where(
    nodes.c.beat_at > LIVE_SINCE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchedAttempt:
    """An attempt without a verdict, and its latest run, if any. Times are in microseconds."""

    attempt_id: str
    published_at: int | None
    node: str | None
    leased_at: int | None
    over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRun:
    """A run that a live node holds, and the run's age in seconds.

    `silent`: the node has sent nothing about this run. A second run is never silent: if it is taken back,
    the attempt ends.
    `full`: the node reports that its daemon has runs wait.
    """

    attempt_id: str
    node: str
    number: int
    kept_s: float
    silent: bool
    full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSnapshot:
    """A snapshot of a gateway's attempts: the attempts to republish, and the runs on nodes."""

    stray: Sequence[str]
    kept: Sequence[KeptRun]


def is_alive(one: DispatchedAttempt, listed: Mapping[str, frozenset[str]], now: int) -> bool:
    """Return whether a live node has an attempt. `listed` contains the attempts of each live node."""
    if one.node is None or one.leased_at is None or one.over or one.node not in listed:
        return False
    return one.attempt_id in listed[one.node] or now - one.leased_at < LIVE_S * _MICROS


def is_stray(
    one: DispatchedAttempt,
    listed: Mapping[str, frozenset[str]],
    now: int,
    *,
    unclaimed_s: float = UNCLAIMED_S,
) -> bool:
    """Return whether an attempt must be republished.

    An aborted attempt is republished immediately. An attempt that is unclaimed for `unclaimed_s` seconds is
    republished too; as long as its message may still be waiting in the queue, this time must be long.
    """
    if one.published_at is None or is_alive(one, listed, now):
        return False
    waited = now - one.published_at
    broken_off = one.node is not None and one.leased_at is not None and one.leased_at > one.published_at
    return waited > (LIVE_S if broken_off else unclaimed_s) * _MICROS


class RunMonitor:
    """A monitor of the runs of one gateway's attempts."""

    def __init__(self, access: DatabaseAccess, gateway_id: str) -> None:
        self._access = access
        self._gateway_id = gateway_id

    async def take_snapshot(self, *, queue_is_empty: bool = False) -> AttemptSnapshot:
        """Return the attempts to republish, and the runs on nodes, except those that have just begun."""
        unclaimed_s = TAKEN_S if queue_is_empty else UNCLAIMED_S

        def fetch(connection: Connection) -> AttemptSnapshot:
            rows = connection.execute(_OLD, {"gateway": self._gateway_id}).all()
            living = connection.execute(_LISTED).all() if rows else ()
            listed, full = _read_listed_runs(living), {node.name for node in living if node.full}
            found = [(row, _build_dispatched(row)) for row in rows]
            return AttemptSnapshot(
                stray=[
                    row.attempt_id
                    for row, one in found
                    if is_stray(one, listed, row.now, unclaimed_s=unclaimed_s)
                ],
                kept=[
                    _build_kept_run(row, full=row.daemon_id in full)
                    for row, one in found
                    if is_alive(one, listed, row.now)
                ],
            )

        return await self._access.read(fetch)

    async def is_alive(self, attempt_id: str) -> bool:
        """Return whether a live node holds an attempt."""

        def fetch(connection: Connection) -> bool:
            row = connection.execute(_ONE, {"attempt": attempt_id}).one_or_none()
            listed = _read_listed_runs(connection.execute(_LISTED))
            return row is not None and is_alive(_build_dispatched(row), listed, row.now)

        return await self._access.read(fetch)


def _read_listed_runs(living: Iterable[Any]) -> Mapping[str, frozenset[str]]:
    return {row.name: frozenset(json.loads(row.runs)) for row in living}


def _build_dispatched(row: Any) -> DispatchedAttempt:
    return DispatchedAttempt(
        attempt_id=row.attempt_id,
        published_at=row.published_at,
        node=row.daemon_id,
        leased_at=row.leased_at,
        over=row.expires_at is not None and row.expires_at <= row.now,
    )


def _build_kept_run(row: Any, *, full: bool) -> KeptRun:
    kept_s = (row.now - row.leased_at) / _MICROS
    return KeptRun(
        attempt_id=row.attempt_id,
        node=row.daemon_id,
        number=row.run_number,
        kept_s=kept_s,
        silent=row.silent and kept_s >= (FULL_S if full else SILENT_S),
        full=full,
    )
