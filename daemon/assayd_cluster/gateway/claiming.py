"""Decides which run a node gets when it presents a ticket. Pure: other modules read and write the tables.

An attempt has at most two runs across all nodes. A run belongs to its node until one of these events: its
verdict is recorded, the node has reported that it has no verdict, the node is dead, or the node no longer
lists it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Select, bindparam, func, literal_column, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.sql.elements import ColumnElement

from assayd.model.attempt import MAX_RUNS
from assayd.store import tables
from assayd.store.server import CompiledStatement

_RUN = tables.runs.c


def build_first_claim(claimed: Select[Any]) -> CompiledStatement:
    """Return the statement that assigns an attempt's first run to a node, if nothing prevents the claim.

    The subquery `claimed` reads the required facts and locks the attempt. The result column `added` is 0 if
    the decision requires more facts.
    """
    found = claimed.cte("found")
    values = {
        "attempt_id": found.c.id,
        "run_number": literal_column("1"),
        "daemon_id": bindparam("node", type_=_RUN.daemon_id.type),
        "leased_at": found.c.now,
        "expires_at": found.c.now + bindparam("lasts", type_=_RUN.expires_at.type),
    }
    others: ColumnElement[str] = literal_column("''")
    nothing_against_it = (
        found.c.ticket_sha256 == bindparam("ticket"),
        found.c.cancelled_at.is_(None),
        found.c.runs.is_(None),
        found.c.takes_work,
        found.c.in_hand < 2 * func.coalesce(func.nullif(found.c.capacity, 0), 1),
    )
    added = (
        insert(tables.runs)
        .from_select(
            [each.name for each in tables.runs.c],
            select(*(values.get(each.name, others) for each in tables.runs.c)).where(*nothing_against_it),
        )
        .on_conflict_do_nothing()
        .returning(_RUN.run_number)
        .cte("added")
    )
    count = select(func.count()).select_from(added).scalar_subquery()
    return CompiledStatement(select(found, count.label("added")))


class Refusal(StrEnum):
    """The reason why a node's claim is refused."""

    HELD = "held"
    """Another live node has the run, so the node must retry later."""
    SILENT = "silent"
    """The node has sent no recent heartbeat, so it must retry after its next heartbeat."""
    IDLE = "idle"
    """The node accepts no work (drained, other profiles, not ready), so another node can get the run."""
    ELSEWHERE = "elsewhere"
    """This node has lost the run before and would fail again, so another node can get the run."""
    OVER = "over"
    """The attempt has a verdict, or must end without one."""
    EXHAUSTED = "exhausted"
    """Both runs of the attempt are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The latest run of an attempt. `alive` is True if the run isn't over and a live node lists the run."""

    number: int
    node: str
    over: bool
    alive: bool


class NodeEligibility(StrEnum):
    """The ability of a node to claim runs, according to its last heartbeat and the operators' settings."""

    TAKES_WORK = "takes_work"
    SILENT = "silent"
    """The node has sent no heartbeat for `HEARTBEAT_TIMEOUT_S` seconds, or never."""
    IDLE = "idle"
    """The node is drained, or the gateway has stopped the node's claims."""


def decide_claim(
    node: str,
    last: LastRun | None,
    *,
    cancelled: bool,
    others: bool,
    standing: NodeEligibility = NodeEligibility.TAKES_WORK,
) -> int | Refusal:
    """Return the number of the run that a node gets, or the reason why the node gets no run.

    Args:
        node: the node that makes the claim.
        last: the latest run; None if the attempt has had no run.
        cancelled: whether the attempt must end.
        others: whether another node accepts work.
        standing: whether this node accepts new work; the node keeps a run that it already holds.
    """
    if cancelled:
        return Refusal.OVER
    if last is not None and not last.over and last.node == node:  # its worker was killed, its daemon goes on
        return last.number
    if standing is not NodeEligibility.TAKES_WORK:
        return Refusal(standing.value)
    if last is None:
        return 1
    if last.alive:
        return Refusal.HELD
    return _decide_next_run(node, last, others=others)


def _decide_next_run(node: str, last: LastRun, *, others: bool) -> int | Refusal:
    """Return the run that an attempt gets after its latest run is over, or the refusal."""
    if last.number >= MAX_RUNS:
        return Refusal.EXHAUSTED
    if last.node == node and others:
        return Refusal.ELSEWHERE
    return last.number + 1
