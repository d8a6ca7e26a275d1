"""Decides which containers to create, hand out and remove. Pure: no I/O, no clock, no engine.

A container is started ahead of need, waits with its runner ready, is leased once, and is removed. It is
keyed by everything that is fixed at its creation. An empty pool is a cold start, never an error.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolKey:
    """What is fixed when a container is created: two attempts with equal keys may use the same one."""

    image: str
    image_digest: str
    memory_bytes: int
    pids: int
    cpus: float
    work_bytes: int
    work_files: int
    open_files: int
    network: str
    seccomp: str = field(repr=False)
    preload: tuple[str, ...] = field(default=(), repr=False)

    @property
    def digest(self) -> str:
        """Give a short name of this key for labels and metrics."""
        return hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """Bounds of the pool.

    `max_containers` counts every container that exists, from its creation to its verified removal.
    `refill_concurrency` bounds creations that nobody waits for; `start_concurrency` all of them.
    """

    max_containers: int = 32
    start_concurrency: int = 4
    refill_concurrency: int = 1
    idle_memory_bytes: int = 1024 * 2**20
    max_idle_s: float = 600.0


KEPT = 2
"""How many ready containers of a key are left to newcomers. Of one, a quarter of them found it taken."""

Lane = tuple[int, str]
"""In whose turn a container is waited for: the user, and what of the user's sends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessee:
    """Somebody who waits for a container, or has one."""

    key: PoolKey
    lane: Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """A container that waits to be leased."""

    ulid: str
    key: PoolKey
    born_at: float
    memory_bytes: int
    alive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """The pool at one moment.

    `waiting` holds those who wait for a container, in turn; `idle` is oldest first. `starting` counts
    creations under way, `leased` holds those who have a container, `removing` counts those on their way out,
    `stuck` those that would not go, `busy` attempts under way. Until `blocked_until` nothing is created: the
    engine has just refused.
    """

    waiting: tuple[Lessee, ...] = ()
    idle: tuple[Idle, ...] = ()
    starting: Mapping[PoolKey, int] = field(default_factory=dict)
    leased: tuple[Lessee, ...] = ()
    removing: int = 0
    stuck: int = 0
    busy: int = 0
    targets: Mapping[PoolKey, int] = field(default_factory=dict)
    limits: PoolLimits = PoolLimits()
    blocked_until: float = 0.0

    @property
    def containers(self) -> int:
        """Count every container that exists or is about to."""
        coming = sum(self.starting.values())
        return len(self.idle) + coming + len(self.leased) + self.removing + self.stuck

    @property
    def room(self) -> int:
        """Count the containers that may still be created."""
        return self.limits.max_containers - self.containers


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Hand the idle container to the waiter at this place of `waiting`."""

    waiter: int
    ulid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Remove an idle container."""

    ulid: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create a container of this key. `wanted` tells that somebody waits for it."""

    key: PoolKey
    wanted: bool


Action = Assign | Remove | Create


def decide(state: PoolState, now: float) -> list[Action]:
    """Give what is to be done now, in order: drop the unfit, hand out, make room, create."""
    unfit = list(_unfit(state, now))
    gone = {r.ulid for r in unfit}
    state = replace(
        state,
        idle=tuple(i for i in state.idle if i.ulid not in gone),
        removing=state.removing + len(gone),
    )
    assigned = _assign(state, may_create=now >= state.blocked_until)
    state = _after(state, assigned)
    evicted = list(_evict(state))
    creations = [] if now < state.blocked_until else list(_create(state))
    return [*unfit, *assigned, *evicted, *creations]


def _unfit(state: PoolState, now: float) -> Iterator[Remove]:
    """Name idle containers that must not be leased: dead, too old, too many, too heavy."""
    kept: Counter[PoolKey] = Counter()
    waiting = Counter(waiter.key for waiter in state.waiting)
    memory, most_memory = 0, state.limits.idle_memory_bytes
    for idle in reversed(state.idle):
        wanted = state.targets.get(idle.key, 0) + waiting[idle.key]
        if not idle.alive:
            yield Remove(ulid=idle.ulid, reason="died")
        elif now - idle.born_at > state.limits.max_idle_s:
            yield Remove(ulid=idle.ulid, reason="age")
        elif kept[idle.key] >= wanted:
            yield Remove(ulid=idle.ulid, reason="surplus")
        elif kept[idle.key] >= waiting[idle.key] and memory + idle.memory_bytes > most_memory:
            yield Remove(ulid=idle.ulid, reason="memory")
        else:
            kept[idle.key] += 1
            memory += idle.memory_bytes


def _assign(state: PoolState, *, may_create: bool) -> list[Assign]:
    """Hand out idle containers in turn; the last of a key to newcomers only, while others can be made."""
    sparingly = list(_hand_out(state, kept=KEPT))
    if may_create and len(_unserved(_after(state, sparingly))) <= state.room:
        return sparingly
    return list(_hand_out(state, kept=0))


def _hand_out(state: PoolState, *, kept: int) -> Iterator[Assign]:
    """Give each waiter, in turn, the oldest idle container of its key.

    A lane with more than one attempt for a key leaves `kept` of it, if as many are to stand ready: who sends
    much keeps nobody from finding a warm one who sends little.
    """
    free = list(state.idle)
    sent = Counter((*state.leased, *state.waiting))
    for place, waiter in enumerate(state.waiting):
        fitting = [idle for idle in free if idle.key == waiter.key]
        left = min(kept, state.targets.get(waiter.key, 0)) if sent[waiter] > 1 else 0
        if len(fitting) > left:
            free.remove(fitting[0])
            yield Assign(waiter=place, ulid=fitting[0].ulid)


def _after(state: PoolState, assigned: list[Assign]) -> PoolState:
    """Give the state once these are handed out."""
    taken = {assign.ulid for assign in assigned}
    served = {assign.waiter for assign in assigned}
    return replace(
        state,
        idle=tuple(idle for idle in state.idle if idle.ulid not in taken),
        waiting=tuple(waiter for place, waiter in enumerate(state.waiting) if place not in served),
        leased=(*state.leased, *(state.waiting[place] for place in served)),
    )


def _unserved(state: PoolState) -> list[PoolKey]:
    """Name the keys of waiters for whom nothing is being started yet, in turn."""
    starting = Counter(state.starting)
    unserved = []
    for waiter in state.waiting:
        if starting[waiter.key]:
            starting[waiter.key] -= 1
        else:
            unserved.append(waiter.key)
    return unserved


def _evict(state: PoolState) -> Iterator[Remove]:
    """Make room for waiters when idle containers of other keys fill the house."""
    missing = len(_unserved(state)) - state.room - state.removing
    for idle in state.idle[: max(missing, 0)]:
        yield Remove(ulid=idle.ulid, reason="room")


def _create(state: PoolState) -> Iterator[Create]:
    """Start what waiters need; when nobody waits and the house is calm, refill."""
    starting = sum(state.starting.values())
    wanted = _unserved(state)[: max(min(state.room, state.limits.start_concurrency - starting), 0)]
    yield from (Create(key=key, wanted=True) for key in wanted)
    if not state.waiting:
        yield from _refill(state)


def _refill(state: PoolState) -> Iterator[Create]:
    """Start what is missing, few at a time; while attempts are under way only for keys that run low.

    One removal may go on beside a start: it takes the engine turns with both to keep up with a steady
    demand. When a key runs low, one start more is allowed than else.
    """
    idle = Counter(i.key for i in state.idle)
    low = {key for key, wanted in state.targets.items() if 4 * idle[key] <= wanted}
    at_once = state.limits.refill_concurrency + bool(low)
    room = min(state.room, at_once - sum(state.starting.values()) - max(state.removing - 1, 0))
    memory = state.limits.idle_memory_bytes - sum(i.memory_bytes for i in state.idle)
    due = [key for key in _missing(state) if not state.busy or key in low]
    for key in due[: max(room, 0)]:
        if memory > max((i.memory_bytes for i in state.idle if i.key == key), default=0):
            yield Create(key=key, wanted=False)


def _missing(state: PoolState) -> list[PoolKey]:
    """Name a key once per container that it lacks, the emptiest key first."""
    have = Counter(i.key for i in state.idle) + Counter(state.starting)
    lacks = {key: target - have[key] for key, target in state.targets.items() if target > have[key]}
    order = sorted(lacks, key=lambda key: (have[key] / state.targets[key], repr(key)))
    return [key for key in order for _ in range(lacks[key])]


def target(base: int, *, rate_per_s: float, refill_s: float, most: int) -> int:
    """Give how many idle containers a key should have at this rate of leases.

    While one container is refilled, `rate_per_s * refill_s` others are leased on average; arrivals come
    in bursts, so three standard deviations of that (a Poisson count) are kept on top.
    """
    expected = rate_per_s * refill_s
    return min(most, max(base, math.ceil(base + expected + 3 * math.sqrt(expected))))
