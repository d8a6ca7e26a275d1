"""Which run a node that shows a ticket gets. Pure: the tables are read and written elsewhere.

An attempt has at most two runs over all nodes. A run is its node's until it is over: its verdict is in, the
node has said that it came to none, or the node does not live any more, or no longer lists it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from assayd.model.attempt import MAX_RUNS


class Refusal(StrEnum):
    """Why a claim is refused."""

    HELD = "held"
    """Another node that lives has the run: ask again later."""
    ELSEWHERE = "elsewhere"
    """This node has lost the run before, and its daemon would answer the same; another node can have it."""
    OVER = "over"
    """It has its verdict, or is to end without one."""
    EXHAUSTED = "exhausted"
    """Both runs are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The latest run of an attempt. `alive`: it is not over, and its node lives and lists it."""

    number: int
    node: str
    over: bool
    alive: bool


def decide_claim(node: str, last: LastRun | None, *, cancelled: bool, others: bool) -> int | Refusal:
    """Return the number of the run that a node gets, or why it gets none.

    Args:
        node: who asks.
        last: the latest run, None where there was none.
        cancelled: whether the attempt is to end.
        others: whether another node takes work.
    """
    if cancelled:
        return Refusal.OVER
    if last is None:
        return 1
    if not last.over and last.node == node:  # its worker was killed, and its daemon goes on
        return last.number
    if last.alive:
        return Refusal.HELD
    return _decide_next(node, last, others=others)


def _decide_next(node: str, last: LastRun, *, others: bool) -> int | Refusal:
    """Decide about the run after one that is over."""
    if last.number >= MAX_RUNS:
        return Refusal.EXHAUSTED
    if last.node == node and others:
        return Refusal.ELSEWHERE
    return last.number + 1
