"""Decides which containers to create, lease and remove. Pure: no I/O, no clock, no engine.

A container is started in advance, waits with its runner ready, is leased once, and is removed. Its key
consists of all properties that are fixed at creation. An empty pool causes a cold start, never an error.

`PoolDemand` measures the demand for each key, and derives the target number of idle containers.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from functools import lru_cache
from operator import attrgetter
from weakref import WeakValueDictionary


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class PoolKey:
    """The properties fixed when a container is created. A container suits any attempt with an equal key."""

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
    work_exec: bool = False

    @property
    def digest(self) -> str:
        """Return a short name (a digest) of this key for labels and metrics."""
        return _compute_digest(self)


_key_of, _memory_of = attrgetter("key"), attrgetter("memory_bytes")
_get_key_parts = attrgetter(*(each.name for each in fields(PoolKey)))


_KEY_BY_PARTS: WeakValueDictionary[tuple[object, ...], PoolKey] = WeakValueDictionary()


def intern_key(key: PoolKey) -> PoolKey:
    """Return the known key that equals `key`. If there is none, register and return `key`."""
    return _KEY_BY_PARTS.setdefault(_get_key_parts(key), key)


@lru_cache(maxsize=1024)
def _compute_digest(key: PoolKey) -> str:
    return hashlib.sha256(repr(astuple(key)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """The limits of the pool.

    `max_containers` counts every container from its creation to its verified removal. `refill_concurrency`
    limits the creations for refills; `start_concurrency` limits all creations. `processors` is the number
    of containers that can compute at the same time.
    """

    max_containers: int = 32
    start_concurrency: int = 4
    refill_concurrency: int = 1
    idle_memory_bytes: int = 1024 * 2**20
    max_idle_s: float = 600.0
    processors: int = 1


RESERVED_COUNT = 2
"""Warm containers of a key that are reserved for idle flows."""

STARTS_PER_RESERVE_START = 2
"""Containers to start for waiting attempts before one for the reserve."""

Flow = tuple[int, str]
"""A queue for containers: the user, and the batch or program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHolder:
    """A run that waits for a container or has leased one."""

    key: PoolKey
    flow: Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleContainer:
    """An idle container. `ahead` is true if it was created for the reserve instead of a waiting run."""

    ulid: str
    key: PoolKey
    born_at: float
    memory_bytes: int
    alive: bool = True
    ahead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """A snapshot of the pool.

    `waiting` lists the runs that wait for a container, in order of service; `idle` lists idle containers,
    beginning with the oldest. `starting` counts the creations in progress for waiting runs, and `refilling`
    the creations in progress for the reserve. `since_refill` counts the creations for waiting runs since
    the last creation for the reserve. `leased` lists the runs with a container. `removing` counts the
    removals in progress, `stuck` the failed removals, and `busy` the running attempts. No container is
    created before `blocked_until`, because the engine has failed recently.
    """

    waiting: tuple[LeaseHolder, ...] = ()
    idle: tuple[IdleContainer, ...] = ()
    starting: Mapping[PoolKey, int] = field(default_factory=dict)
    refilling: Mapping[PoolKey, int] = field(default_factory=dict)
    since_refill: int = STARTS_PER_RESERVE_START
    leased: tuple[LeaseHolder, ...] = ()
    removing: int = 0
    stuck: int = 0
    busy: int = 0
    targets: Mapping[PoolKey, int] = field(default_factory=dict)
    limits: PoolLimits = PoolLimits()
    blocked_until: float = 0.0

    @property
    def containers(self) -> int:
        """Return the number of containers that exist or are being created."""
        return len(self.idle) + self.creating + len(self.leased) + self.removing + self.stuck

    @property
    def creating(self) -> int:
        """Return the number of creations in progress."""
        return sum(self.starting.values()) + sum(self.refilling.values())

    @property
    def room(self) -> int:
        """Return the number of containers that can still be created."""
        return self.limits.max_containers - self.containers


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignContainer:
    """The action to assign an idle container to the waiting run at this index of `waiting`."""

    waiter: int
    ulid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveContainer:
    """The action to remove an idle container."""

    ulid: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateContainer:
    """The action to create a container of a key for a waiting run or, if `ahead`, for the reserve."""

    key: PoolKey
    ahead: bool = False


Action = AssignContainer | RemoveContainer | CreateContainer


def decide_actions(state: PoolState, now: float) -> list[Action]:
    """Return the next actions in order: remove unfit containers, assign, remove surplus, evict, create."""
    unfit = list(_iter_unfit_removals(state, now))
    state = _apply_removals(state, unfit)
    assigned = _list_assignments(state, may_create=now >= state.blocked_until)
    state = _apply_assignments(state, assigned)
    surplus = list(_iter_surplus_removals(state))
    state = _apply_removals(state, surplus)
    startable = _list_startable_keys(state)
    evicted = list(_iter_evictions(state, len(startable)))
    creations = [] if now < state.blocked_until else list(_create(state, startable))
    return [*unfit, *assigned, *surplus, *evicted, *creations]


def find_idle_spare(state: PoolState, key: PoolKey, *, quick: bool) -> str | None:
    """Return the idle container that a run can use in addition to its own, or None.

    A container is spared only if no run waits and a processor is free. Unless `quick`, the reserve is kept.
    """
    fitting = [idle.ulid for idle in state.idle if idle.key == key and idle.alive]
    busy = state.waiting or len(state.leased) >= state.limits.processors
    return None if busy or len(fitting) <= (0 if quick else RESERVED_COUNT) else fitting[0]


def _iter_unfit_removals(state: PoolState, now: float) -> Iterator[RemoveContainer]:
    """Yield removals of idle containers that must not be leased because they are dead or too old."""
    for idle in state.idle:
        if not idle.alive:
            yield RemoveContainer(ulid=idle.ulid, reason="died")
        elif now - idle.born_at > state.limits.max_idle_s:
            yield RemoveContainer(ulid=idle.ulid, reason="age")


def _list_assignments(state: PoolState, *, may_create: bool) -> list[AssignContainer]:
    """Return the assignments in turn. While enough containers can be created, save the reserved ones.

    Reserved containers are for idle flows.
    """
    if not state.waiting or not state.idle:
        return []
    sparingly = list(_iter_assignments(state, reserved=RESERVED_COUNT))
    if may_create and len(_list_startable_keys(_apply_assignments(state, sparingly))) <= state.room:
        return sparingly
    return list(_iter_assignments(state, reserved=0))


def _iter_assignments(state: PoolState, *, reserved: int) -> Iterator[AssignContainer]:
    """Yield, for each waiter in turn, an assignment of the oldest container with the waiter's key.

    Of the containers created for the reserve, the last `reserved` ones are kept for idle flows, which have
    no other attempt with this key. Containers created for waiting runs are only assigned in turn.
    """
    free, sent = list(state.idle), Counter((*state.leased, *state.waiting))
    for place, lease_holder in enumerate(state.waiting):
        fitting = [idle for idle in free if idle.key == lease_holder.key]
        left = min(reserved, state.targets.get(lease_holder.key, 0)) if sent[lease_holder] > 1 else 0
        kept = [idle for idle in fitting if idle.ahead][-left:] if left else []
        chosen = next((idle for idle in fitting if idle not in kept), None)
        if chosen is not None:
            free.remove(chosen)
            yield AssignContainer(waiter=place, ulid=chosen.ulid)


def _apply_removals(state: PoolState, removed: Sequence[RemoveContainer]) -> PoolState:
    """Return the state of the pool after these removals have begun."""
    if not removed:
        return state
    gone = {remove.ulid for remove in removed}
    idle = tuple(idle for idle in state.idle if idle.ulid not in gone)
    return replace(state, idle=idle, removing=state.removing + len(gone))


def _apply_assignments(state: PoolState, assigned: Sequence[AssignContainer]) -> PoolState:
    """Return the state of the pool after these assignments."""
    if not assigned:
        return state
    taken = {assign.ulid for assign in assigned}
    served = {assign.waiter for assign in assigned}
    return replace(
        state,
        idle=tuple(idle for idle in state.idle if idle.ulid not in taken),
        waiting=tuple(
            lease_holder for place, lease_holder in enumerate(state.waiting) if place not in served
        ),
        leased=(*state.leased, *(state.waiting[place] for place in served)),
    )


def _iter_surplus_removals(state: PoolState) -> Iterator[RemoveContainer]:
    """Yield removals of the oldest idle containers that exceed the number limit or memory limit."""
    wanted = dict(state.targets)
    memory = 0
    for idle in reversed(state.idle):
        if wanted.get(idle.key, 0) <= 0:
            yield RemoveContainer(ulid=idle.ulid, reason="surplus")
        elif memory + idle.memory_bytes > state.limits.idle_memory_bytes:
            yield RemoveContainer(ulid=idle.ulid, reason="memory")
        else:
            wanted[idle.key] -= 1
            memory += idle.memory_bytes


def _list_unserved_keys(state: PoolState) -> list[PoolKey]:
    """Return, in order of service, the keys of waiters for which no container is being created."""
    coming = Counter(state.starting)
    if state.refilling:
        short = _count_shortages(state)
        for key, count in state.refilling.items():  # Containers beyond the reserve are for waiters.
            coming[key] += max(0, count - short.get(key, 0))
    unserved = []
    for lease_holder in state.waiting:
        if coming[lease_holder.key] > 0:
            coming[lease_holder.key] -= 1
        else:
            unserved.append(lease_holder.key)
    return unserved


def _count_shortages(state: PoolState) -> dict[PoolKey, int]:
    """Return the number of containers that each key's reserve lacks. Omit keys that lack none.

    This function is called several times per attempt with tens of keys; therefore, it avoids function calls
    per key.
    """
    ready = dict(Counter(map(_key_of, state.idle)))
    short = {}
    for key, wanted in state.targets.items():
        lacks = min(wanted, RESERVED_COUNT) - ready.get(key, 0)
        if lacks > 0:
            short[key] = lacks
    return short


def _list_startable_keys(state: PoolState) -> list[PoolKey]:
    """Return the keys of waiters for which containers could be started now if capacity is available."""
    if not state.waiting:
        return []
    starts = state.limits.start_concurrency - state.creating - len(_find_due_reserve_key(state))
    return _list_unserved_keys(state)[: max(starts, 0)]


def _find_due_reserve_key(state: PoolState) -> list[PoolKey]:
    """Return a list with the key whose reserve is due for a start although runs wait, or an empty list.

    One of several starts is for a reserve, so that an idle flow soon finds a container again. All other
    starts are for waiting runs, in turn.
    """
    few = state.limits.start_concurrency < 2 or state.since_refill < STARTS_PER_RESERVE_START
    if not state.waiting or few:
        return []
    lacks = {key: short - state.refilling.get(key, 0) for key, short in _count_shortages(state).items()}
    key = max(lacks, key=lambda key: lacks[key], default=None)
    return (
        [create.key for create in _iter_affordable_creations(state, [key])]
        if key is not None and lacks[key] > 0
        else []
    )


def _iter_evictions(state: PoolState, starts: int) -> Iterator[RemoveContainer]:
    """Yield removals of other keys' idle containers that occupy capacity that waiters need."""
    if not state.waiting:
        return
    missing = starts - state.room - state.removing
    for idle in state.idle[: max(missing, 0)]:
        yield RemoveContainer(ulid=idle.ulid, reason="room")


def _create(state: PoolState, startable: Sequence[PoolKey]) -> Iterator[CreateContainer]:
    """Yield creations for waiters and due reserves or, if no run waits, for all reserves."""
    wanted = startable[: max(state.room, 0)]
    yield from (CreateContainer(key=key) for key in wanted)
    if not state.waiting:
        yield from _iter_refills(state)
    elif state.room > len(wanted) and state.creating < state.limits.start_concurrency:
        yield from (CreateContainer(key=key, ahead=True) for key in _find_due_reserve_key(state))


def _iter_refills(state: PoolState) -> Iterator[CreateContainer]:
    """Yield creations for reserves. While attempts run, create only for keys with few containers.

    One removal can run concurrently, because the engine must alternate between creations and removals under
    steady demand. If a key has few containers, one more start is allowed.
    """
    idle = Counter(map(_key_of, state.idle))
    low = {key for key, wanted in state.targets.items() if 4 * idle[key] <= wanted}
    at_once = state.limits.refill_concurrency + bool(low)
    room = min(state.room, at_once - state.creating - max(state.removing - 1, 0))
    if room > 0:
        due = [key for key in _list_missing_keys(state) if not state.busy or key in low]
        yield from _iter_affordable_creations(state, due[:room])


def _iter_affordable_creations(state: PoolState, keys: Sequence[PoolKey]) -> Iterator[CreateContainer]:
    """Yield the creations for which the idle containers leave enough memory."""
    memory = state.limits.idle_memory_bytes - sum(map(_memory_of, state.idle))
    for key in keys:
        if memory > max((i.memory_bytes for i in state.idle if i.key == key), default=0):
            yield CreateContainer(key=key, ahead=True)


def _list_missing_keys(state: PoolState) -> list[PoolKey]:
    """Return each key once per missing container. Begin with the lowest ratio of containers to target."""
    have = Counter(map(_key_of, state.idle))
    for coming in (state.starting, state.refilling):
        for key, count in coming.items():
            have[key] += count
    lacks = {key: target - have[key] for key, target in state.targets.items() if target > have[key]}
    order = sorted(lacks, key=lambda key: (have[key] / state.targets[key], key.digest))
    return [key for key in order for _ in range(lacks[key])]


def compute_idle_target(base: int, *, rate_per_s: float, refill_s: float, most: int) -> int:
    """Return the target number of idle containers of a key for this rate of leases, at most `most`.

    While one container is created, `rate_per_s * refill_s` others are leased on average. Because requests
    arrive in bursts, three standard deviations (of a Poisson count) are added.
    """
    expected = rate_per_s * refill_s
    return min(most, max(base, math.ceil(base + expected + 3 * math.sqrt(expected))))


RATE_DECAY_S = 30.0
"""Seconds after which a rate has decayed to about a third."""

RATE_EXPIRY_S = 120.0
"""Seconds without a lease after which a key has no rate."""

UNUSED_AFTER_S = 3600.0
"""Seconds without a lease after which a warm key counts as unused."""

TYPICAL_REFILL_S = 0.3

FRESH_S = 0.1
"""Seconds for which targets are cached: far less than the time in which a rate changes."""


@dataclass(slots=True)
class _DecayingRate:
    """An exponentially decaying count of events: `weight / RATE_DECAY_S` is the rate per second."""

    weight: float = 0.0
    at: float = 0.0

    def add(self, now: float) -> None:
        self.weight = self.weight * math.exp((self.at - now) / RATE_DECAY_S) + 1.0
        self.at = now

    def per_s(self, now: float) -> float:
        return self.weight * math.exp((self.at - now) / RATE_DECAY_S) / RATE_DECAY_S


class PoolDemand:
    """The target numbers of idle containers: a base number for warm keys, and more for high demand.

    A warm key without recent leases has its `unused` target instead of its `base`, because a daemon
    supports more keys than a single user needs. The targets of other keys depend only on the rates of
    leases. Because requests can create an unlimited number of such keys, they are removed soon.
    """

    def __init__(self, *, base: int, unused: int, most: int) -> None:
        self._base = base
        self._unused = min(unused, base)
        self._most = most
        self._kept: frozenset[PoolKey] = frozenset()
        self._asked_at: dict[PoolKey, float] = {}
        self._rates: dict[PoolKey, _DecayingRate] = {}
        self._refill_s: dict[PoolKey, float] = {}
        self._targets: Mapping[PoolKey, int] = {}
        self._made_at = -math.inf

    def keep(self, keys: frozenset[PoolKey]) -> None:
        """Set the warm keys, which have a base target even without demand."""
        self._made_at = -math.inf
        self._kept = keys
        self._asked_at = {key: at for key, at in self._asked_at.items() if key in keys}

    def asked(self, key: PoolKey, now: float) -> None:
        """Record a lease of a container with this key."""
        if key not in self._targets:
            self._made_at = -math.inf
        if key in self._kept:
            self._asked_at[key] = now
        self._rates.setdefault(key, _DecayingRate()).add(now)

    def record_creation(self, key: PoolKey, took_s: float) -> None:
        """Record the duration of a container's creation in seconds."""
        before = self._refill_s.get(key, took_s)
        self._refill_s[key] = before + (took_s - before) / 4

    def targets(self, now: float) -> Mapping[PoolKey, int]:
        """Return the target number of idle containers per key, which is cached briefly."""
        if not 0 <= now - self._made_at < FRESH_S:
            self._targets, self._made_at = self._compute_targets(now), now
        return self._targets

    def _compute_targets(self, now: float) -> Mapping[PoolKey, int]:
        for key in [k for k, rate in self._rates.items() if now - rate.at > RATE_EXPIRY_S]:
            del self._rates[key]
        known = {*self._kept, *self._rates}
        for key in [k for k in self._refill_s if k not in known]:
            del self._refill_s[key]
        return {key: self._compute_target(key, now) for key in known}

    def refill_s(self) -> Mapping[PoolKey, float]:
        """Return the recent duration of creations in seconds, by key."""
        return dict(self._refill_s)

    def _compute_target(self, key: PoolKey, now: float) -> int:
        rate = self._rates[key].per_s(now) if key in self._rates else 0.0
        refill_s = self._refill_s.get(key, TYPICAL_REFILL_S)
        return compute_idle_target(
            self._compute_minimum_idle(key, now), rate_per_s=rate, refill_s=refill_s, most=self._most
        )

    def _compute_minimum_idle(self, key: PoolKey, now: float) -> int:
        """Return the number of idle containers to keep regardless of the rate."""
        if key not in self._kept:
            return 0
        asked_at = self._asked_at.get(key)
        return self._unused if asked_at is None or now - asked_at > UNUSED_AFTER_S else self._base
