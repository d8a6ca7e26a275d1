"""Decides which containers to create, hand out and remove. Pure: no I/O, no clock, no engine.

A container is started ahead of need, waits with its runner ready, is leased once, and is removed. It is
keyed by everything that is fixed at its creation. An empty pool is a cold start, never an error.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import lru_cache


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
        """Return a short name of this key for labels and metrics."""
        return _digest(self)


@lru_cache(maxsize=1024)
def _digest(key: PoolKey) -> str:
    return hashlib.sha256(repr(astuple(key)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """Bounds of the pool.

    `max_containers` counts every container that exists, from its creation to its verified removal.
    `refill_concurrency` bounds the creations of a refill; `start_concurrency` all of them.
    """

    max_containers: int = 32
    start_concurrency: int = 4
    refill_concurrency: int = 1
    idle_memory_bytes: int = 1024 * 2**20
    max_idle_s: float = 600.0


RESERVED = 2
"""How many ready containers of a key are reserved for idle flows; with one, a quarter found it taken."""

Flow = tuple[int, str]
"""What a container is waited for in: the user, and which of its batches or programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessee:
    """Somebody who waits for a container, or has one; or, if `is_credit`, a credit of that flow.

    A replenishment credit waits like an attempt; the container that is made in its turn stays ready.
    """

    key: PoolKey
    flow: Flow
    is_credit: bool = False


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

    `waiting` holds those who wait for a container, and credits, in turn; `idle` is oldest first.
    `starting` counts creations under way, `leased` holds those who have a container, `removing` counts those
    on their way out, `stuck` those that would not go, `busy` attempts under way. Until `blocked_until`
    nothing is created: the engine has just refused.
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
    """Hand the idle container to the waiter at this place of `waiting`; its flow may get a credit for it."""

    waiter: int
    ulid: str
    earns_credit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Remove an idle container."""

    ulid: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create a container of this key: for one who waits, or, if `ahead`, to stand ready."""

    key: PoolKey
    ahead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropCredit:
    """Drop the credit at this place of `waiting`."""

    waiter: int


Action = Assign | Remove | Create | DropCredit


def decide(state: PoolState, now: float) -> list[Action]:
    """Return what is to be done now, in order: drop the unfit, hand out, make room, create."""
    unfit = list(_unfit(state, now))
    gone = {r.ulid for r in unfit}
    state = replace(
        state,
        idle=tuple(i for i in state.idle if i.ulid not in gone),
        removing=state.removing + len(gone),
    )
    spent = list(_spent_credits(state))
    assigned = _assign(state, may_create=now >= state.blocked_until)
    state = _after(state, assigned, spent)
    evicted = list(_evict(state))
    creations = [] if now < state.blocked_until else list(_create(state))
    return [*unfit, *spent, *assigned, *evicted, *creations]


def _unfit(state: PoolState, now: float) -> Iterator[Remove]:
    """Name idle containers that must not be leased: dead, too old, too many, too heavy."""
    kept: Counter[PoolKey] = Counter()
    waiting = Counter(lessee.key for lessee in state.waiting)
    memory = 0
    for idle in reversed(state.idle):
        wanted = state.targets.get(idle.key, 0) + waiting[idle.key]
        if not idle.alive:
            yield Remove(ulid=idle.ulid, reason="died")
        elif now - idle.born_at > state.limits.max_idle_s:
            yield Remove(ulid=idle.ulid, reason="age")
        elif kept[idle.key] >= wanted:
            yield Remove(ulid=idle.ulid, reason="surplus")
        elif memory + idle.memory_bytes > state.limits.idle_memory_bytes:
            yield Remove(ulid=idle.ulid, reason="memory")
        else:
            kept[idle.key] += 1
            memory += idle.memory_bytes


def _assign(state: PoolState, *, may_create: bool) -> list[Assign]:
    """Hand out idle containers in turn; the last of a key to idle flows only, while others can be made."""
    sparingly = list(_hand_out(state, reserved=RESERVED))
    if may_create and len(_startable(_after(state, sparingly))) <= state.room:
        return sparingly
    return list(_hand_out(state, reserved=0))


def _hand_out(state: PoolState, *, reserved: int) -> Iterator[Assign]:
    """Assign waiters, in turn, the oldest idle container of their key; the last `reserved` to idle flows."""
    free, sent = list(state.idle), Counter((*state.leased, *state.waiting))
    for place, lessee in enumerate(state.waiting):
        fitting = [idle for idle in free if idle.key == lessee.key]
        if lessee.is_credit or not fitting:
            continue
        idle_flow = _is_idle_flow(sent, lessee)
        if idle_flow or len(fitting) > min(reserved, state.targets.get(lessee.key, 0)):
            free.remove(fitting[0])
            earns = reserved > 0 and idle_flow and _is_short(state, lessee.key, ready=len(fitting) - 1)
            yield Assign(waiter=place, ulid=fitting[0].ulid, earns_credit=earns)


def _is_idle_flow(sent: Counter[Lessee], lessee: Lessee) -> bool:
    """Return whether its flow has no other attempt for the key here, and few credits."""
    return sent[lessee] == 1 and sent[replace(lessee, is_credit=True)] < RESERVED


def _is_short(state: PoolState, key: PoolKey, *, ready: int) -> bool:
    """Return whether several wait, while ready ones and credits are fewer than are reserved."""
    waiting = [lessee for lessee in state.waiting if lessee.key == key]
    credited = sum(lessee.is_credit for lessee in waiting)
    return len(waiting) - credited > 1 and ready + credited < min(RESERVED, state.targets.get(key, 0))


def welcome(state: PoolState, key: PoolKey) -> Assign | DropCredit | None:
    """Return what happens as a container of this key has become idle: the first in turn gets the oldest.

    An idle flow gets a credit then, if they are short: what is made in its turn is kept ready. So nobody gets
    more than by round-robin alone, but who comes again finds one.
    """
    place = next((place for place, lessee in enumerate(state.waiting) if lessee.key == key), None)
    if place is None:
        return None
    first = state.waiting[place]
    if first.is_credit:
        return DropCredit(waiter=place)
    ready = [idle for idle in state.idle if idle.key == key and idle.alive]
    idle_flow = _is_idle_flow(Counter((*state.leased, *state.waiting)), first)
    earns = idle_flow and _is_short(state, key, ready=len(ready) - 1)
    return Assign(waiter=place, ulid=ready[0].ulid, earns_credit=earns)


def _spent_credits(state: PoolState) -> Iterator[DropCredit]:
    """Name the credits that are made good without their turn, or for which there is no room."""
    ready = Counter(idle.key for idle in state.idle)
    full = sum(idle.memory_bytes for idle in state.idle) >= state.limits.idle_memory_bytes
    nobody = all(lessee.is_credit for lessee in state.waiting)
    for place, lessee in enumerate(state.waiting):
        whole = ready[lessee.key] >= min(RESERVED, state.targets.get(lessee.key, 0))
        if lessee.is_credit and (whole or full or (nobody and state.room <= 0)):
            yield DropCredit(waiter=place)


def _after(state: PoolState, assigned: Sequence[Assign], spent: Sequence[DropCredit] = ()) -> PoolState:
    """Return the state once these are handed out and those forgotten."""
    taken = {assign.ulid for assign in assigned}
    served = {assign.waiter for assign in assigned}
    over = served | {drop.waiter for drop in spent}
    return replace(
        state,
        idle=tuple(idle for idle in state.idle if idle.ulid not in taken),
        waiting=tuple(lessee for place, lessee in enumerate(state.waiting) if place not in over),
        leased=(*state.leased, *(state.waiting[place] for place in served)),
    )


def _unserved(state: PoolState, *, credit: bool = False) -> list[PoolKey]:
    """Name the keys of waiters, or of credits, for which nothing is being started yet, in turn."""
    starting = Counter(state.starting)
    unserved = []
    for lessee in state.waiting:
        if starting[lessee.key]:
            starting[lessee.key] -= 1
        elif lessee.is_credit == credit:
            unserved.append(lessee.key)
    return unserved


def _startable(state: PoolState) -> list[PoolKey]:
    """Name the keys of the waiters for whom a start would be made now, if there were room."""
    starts = state.limits.start_concurrency - sum(state.starting.values())
    return _unserved(state)[: max(starts, 0)]


def _evict(state: PoolState) -> Iterator[Remove]:
    """Make room for waiters when idle containers of other keys take it all."""
    missing = len(_startable(state)) - state.room - state.removing
    for idle in state.idle[: max(missing, 0)]:
        yield Remove(ulid=idle.ulid, reason="room")


def _create(state: PoolState) -> Iterator[Create]:
    """Start what waiters need, then what credits stand for; refill when nobody waits and none is left."""
    wanted = _startable(state)[: max(state.room, 0)]
    yield from (Create(key=key) for key in wanted)
    starts = state.limits.start_concurrency - sum(state.starting.values())
    left = min(state.room, starts) - len(wanted)
    credited = list(_fitting(state, _unserved(state, credit=True)[: max(left, 0)]))
    yield from credited
    if not credited and all(lessee.is_credit for lessee in state.waiting):
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
    due = [key for key in _missing(state) if not state.busy or key in low]
    yield from _fitting(state, due[: max(room, 0)])


def _fitting(state: PoolState, keys: Sequence[PoolKey]) -> Iterator[Create]:
    """Start those for which the idle leave memory."""
    memory = state.limits.idle_memory_bytes - sum(i.memory_bytes for i in state.idle)
    for key in keys:
        if memory > max((i.memory_bytes for i in state.idle if i.key == key), default=0):
            yield Create(key=key, ahead=True)


def _missing(state: PoolState) -> list[PoolKey]:
    """Name a key once per container that it lacks, the emptiest key first."""
    have = Counter(i.key for i in state.idle) + Counter(state.starting)
    lacks = {key: target - have[key] for key, target in state.targets.items() if target > have[key]}
    order = sorted(lacks, key=lambda key: (have[key] / state.targets[key], repr(key)))
    return [key for key in order for _ in range(lacks[key])]


def target(base: int, *, rate_per_s: float, refill_s: float, most: int) -> int:
    """Return how many idle containers a key should have at this rate of leases.

    While one container is refilled, `rate_per_s * refill_s` others are leased on average; arrivals come
    in bursts, so three standard deviations of that (a Poisson count) are kept on top.
    """
    expected = rate_per_s * refill_s
    return min(most, max(base, math.ceil(base + expected + 3 * math.sqrt(expected))))
