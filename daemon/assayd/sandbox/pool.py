"""The warm pool: executes the actions of `pool_decisions`, with one task per creation or removal.

After engine failures, creations pause (exponential backoff with jitter) instead of failing in a loop, and
waiting runs get the engine's error. A container that can't be removed still counts towards the limits and
is reported, so that failures become visible instead of accumulating.

`Reaper` removes unleased containers with this daemon's label: at startup, periodically, and at shutdown.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, replace

import structlog

from assayd.aio import compute_backoff_delay_s, open_task_group, pause, run_cleanup
from assayd.clock import Clock, IdSource
from assayd.errors import EngineError
from assayd.fair_queue import FairQueue
from assayd.ports.engine import LABEL_CONTAINER, LABEL_EXECUTOR, ContainerRef, Engine, OwnedContainer
from assayd.sandbox.container import REMOVE_TIMEOUT_S, Container, ContainerOrigin, open_container
from assayd.sandbox.pool_decisions import (
    STARTS_PER_RESERVE_START,
    AssignContainer,
    CreateContainer,
    IdleContainer,
    LeaseHolder,
    PoolDemand,
    PoolKey,
    PoolLimits,
    PoolState,
    RemoveContainer,
    decide_actions,
    find_idle_spare,
)

log = structlog.get_logger()

TICK_INTERVAL_S = 1.0
CIRCUIT_OPEN_FAILURES = 2
"""Consecutive failed creations after which the circuit is open, until one succeeds."""
STUCK_REMOVAL_RETRY_S = 60.0
"""Seconds between attempts to remove a stuck container."""
YIELD_S = 2.0
"""Seconds for which the removal of a used container yields to running attempts."""
QUICK_YIELD_S = 0.1
"""Seconds for which a removal yields if it takes only milliseconds: the duration of a short attempt."""
UPDATE_DELAY_S = 0.02
"""Seconds for the last response to be sent before the engine gets new work."""


@dataclass(slots=True)
class _Waiter:
    """A run that waits for a container."""

    name: str
    lease_holder: LeaseHolder
    future: asyncio.Future[tuple[Container, asyncio.Task[None] | None]]


class ContainerPool:
    """A pool that manages all containers, whether starting, idle, leased or being removed.

    The pool is used as an async context manager; at the exit, every container is removed.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        origin: ContainerOrigin,
        clock: Clock,
        ids: IdSource,
        limits: PoolLimits,
        demand: PoolDemand,
    ) -> None:
        self._engine = engine
        self._origin = origin
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self.demand = demand
        self._waiting: FairQueue[_Waiter] = FairQueue()
        self._idle: dict[str, tuple[Container, IdleContainer, asyncio.Task[None] | None]] = {}
        self._starting: Counter[PoolKey] = Counter()
        self._refilling: Counter[PoolKey] = Counter()
        self._since_refill = STARTS_PER_RESERVE_START
        self._opening: set[str] = set()
        self._leased: dict[str, LeaseHolder] = {}
        self._removing: set[str] = set()
        self.stuck: dict[str, Container] = {}
        self._stuck_again_at = 0.0
        self.failures = 0
        self.circuit_open = asyncio.Event()
        self._blocked_until = 0.0
        self._open = False
        self._tasks: asyncio.TaskGroup
        self._busy = 0
        self._may_clean_up = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ContainerPool]:
        """Run the pool for the duration of the `with` block. Remove every container at its end."""
        async with open_task_group() as self._tasks:
            self._open = True
            ticker = self._tasks.create_task(self._run_periodically(), name="pool-tick")
            try:
                yield self
            finally:
                ticker.cancel()
                self._close()

    def _close(self) -> None:
        self._open = False
        self._may_clean_up.set()
        for waiter in self._waiting.clear():
            if not waiter.future.done():
                waiter.future.set_exception(EngineError("pool.closed", "the daemon is stopping"))
        for ulid in list(self._idle):
            self._retire_idle(ulid, "stop")

    def state(self) -> PoolState:
        """Return a snapshot of the pool, which is used for decisions and for display."""
        return self._snapshot(self._waiting.list_in_order())

    def _snapshot(self, waiting: Sequence[_Waiter]) -> PoolState:
        now = self._clock.monotonic()
        return PoolState(
            waiting=tuple(waiter.lease_holder for waiter in waiting),
            idle=tuple(idle for _, idle, _ in self._idle.values()),
            starting={key: count for key, count in self._starting.items() if count},
            refilling={key: count for key, count in self._refilling.items() if count},
            since_refill=self._since_refill,
            leased=tuple(self._leased.values()),
            removing=len(self._removing),
            stuck=len(self.stuck),
            busy=self._busy,
            targets=self.demand.targets(now),
            limits=self._limits,
            blocked_until=self._blocked_until,
        )

    def list_live_containers(self) -> frozenset[str]:
        """Return the ULIDs of containers that the pool creates, uses or removes (ignored by the reaper)."""
        return frozenset({*self._opening, *self._idle, *self._leased, *self._removing})

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Count an attempt as running for the `with` block, in which removals and refills are limited."""
        self._busy += 1
        if not self._has_waiters():
            self._may_clean_up.clear()
        try:
            yield
        finally:
            self._busy -= 1
            if not self._busy:
                # Its response is still being sent, and the engine's work would delay that.
                asyncio.get_running_loop().call_later(UPDATE_DELAY_S, self._update)

    async def acquire(self, key: PoolKey, user: int = 0, flow: str = "") -> tuple[Container, bool]:
        """Wait for a container with this key. Return the container, and whether it was warm.

        Users and their flows are served in turn.

        Raises: EngineError, if no container is available.
        """
        waiter = self._enqueue(LeaseHolder(key=key, flow=(user, flow)))
        self.demand.asked(key, self._clock.monotonic())
        self._update()
        warm = waiter.future.done()
        try:
            container, watch = await waiter.future
            if watch is not None:
                await asyncio.wait({watch})  # Two readers of one stream would be an error.
        except asyncio.CancelledError:
            self._abandon_wait(waiter)
            raise
        return container, warm

    async def acquire_spare(self, key: PoolKey, user: int = 0, flow: str = "") -> Container | None:
        """Lease a second container to a run, without waiting. Return None if none can be spared."""
        ulid = find_idle_spare(self._snapshot(self._waiting.list_in_order()), key, quick=self._is_quick)
        if ulid is None:
            return None
        container, watch = self._take_idle(ulid)
        self._leased[ulid] = LeaseHolder(key=key, flow=(user, flow))
        self._update()
        try:
            if watch is not None:
                await asyncio.wait({watch})  # Two readers of one stream would be an error.
        except asyncio.CancelledError:
            self.release(container)
            raise
        return container

    @property
    def _is_quick(self) -> bool:
        return self._engine.capabilities().quick

    def _enqueue(self, lease_holder: LeaseHolder) -> _Waiter:
        waiter = _Waiter(self._ids.new(), lease_holder, asyncio.get_running_loop().create_future())
        self._waiting.put(*lease_holder.flow, waiter.name, waiter)
        return waiter

    def _abandon_wait(self, waiter: _Waiter) -> None:
        if waiter.name in self._waiting:
            self._waiting.remove(waiter.name)
            self._update()  # The waiter's flow may be idle now.
        elif not waiter.future.cancelled() and waiter.future.exception() is None:
            container, _ = waiter.future.result()
            self.release(container)

    def release(self, container: Container) -> None:
        """Return a used container to the pool, which removes the container in the background."""
        self._leased.pop(container.ref.ulid, None)
        self._start_removal(container)
        self._update()

    def schedule_update(self) -> None:
        """Determine and execute the pool's next actions."""
        self._update()

    def _update(self) -> None:
        """Execute the next actions, and update the event that removals and refills wait for."""
        if self._open:
            self._execute_actions()
        # Checked after the assignments: a run with a warm container needs no room.
        if not self._busy or self._has_waiters() or not self._open:
            self._may_clean_up.set()
        else:
            self._may_clean_up.clear()

    def _execute_actions(self) -> None:
        waiting = self._drop_cancelled_waiters()
        for action in decide_actions(self._snapshot(waiting), self._clock.monotonic()):
            match action:
                case AssignContainer(waiter=place, ulid=ulid):
                    self._assign_container(waiting[place], ulid)
                case RemoveContainer(ulid=ulid, reason=reason):
                    self._retire_idle(ulid, reason)
                case CreateContainer(key=key, ahead=ahead):
                    (self._refilling if ahead else self._starting)[key] += 1
                    self._since_refill = 0 if ahead else self._since_refill + 1
                    self._create_task(self._create_container(key, ahead), "pool-create")

    def _create_task(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        # Without the attempt's context: log events about this container don't belong to the current attempt.
        return self._tasks.create_task(work, name=name, context=Context())

    def _drop_cancelled_waiters(self) -> list[_Waiter]:
        """Drop waiters that were cancelled but not yet removed, and return the others in order."""
        if not self._waiting:
            return []
        waiting = self._waiting.list_in_order()
        for waiter in waiting:
            if waiter.future.done():
                self._waiting.remove(waiter.name)
        return [waiter for waiter in waiting if not waiter.future.done()]

    def _has_waiters(self) -> bool:
        return bool(self._waiting)

    def _assign_container(self, waiter: _Waiter, ulid: str) -> None:
        container, watch = self._take_idle(ulid)
        self._waiting.pop_item(waiter.name)
        self._leased[ulid] = waiter.lease_holder
        waiter.future.set_result((container, watch))

    async def _create_container(self, key: PoolKey, ahead: bool) -> None:
        began = self._clock.monotonic()
        ulid = self._ids.new()
        try:
            self._opening.add(ulid)
            container = await open_container(self._engine, key, self._origin, ulid, ahead=ahead)
        except EngineError as problem:
            self._handle_failure(key, problem)
            return
        except Exception:
            # An internal error fails only the waiters of this key, not the daemon.
            log.exception("container.create_broken", container=ulid)
            self._handle_failure(
                key, EngineError("pool.broken", "can't create a container; see the daemon's log")
            )
            return
        finally:
            self._opening.discard(ulid)
            (self._refilling if ahead else self._starting)[key] -= 1
        self.failures, self._blocked_until = 0, 0.0
        self.circuit_open.clear()
        self.demand.record_creation(key, self._clock.monotonic() - began)
        if self._open:
            self._add_idle(container, ahead)
        else:
            self._start_removal(container)
            self._update()

    def _add_idle(self, container: Container, ahead: bool) -> None:
        """Add a new container to the idle containers. Unless it is leased immediately, watch it."""
        idle = IdleContainer(
            ulid=container.ref.ulid,
            key=container.key,
            born_at=self._clock.monotonic(),
            memory_bytes=container.ready.memory_bytes,
            ahead=ahead,
        )
        self._idle[idle.ulid] = (container, idle, None)
        self._update()
        if idle.ulid in self._idle:
            self._idle[idle.ulid] = (
                container,
                idle,
                self._create_task(self._watch_idle(container), "pool-watch"),
            )

    def _take_idle(self, ulid: str) -> tuple[Container, asyncio.Task[None] | None]:
        container, _, watch = self._idle.pop(ulid)
        if watch is not None:
            watch.cancel()
        return container, watch

    async def _watch_idle(self, container: Container) -> None:
        """Detect the death of an idle container before its lease."""
        with suppress(EngineError):
            await container.ended()
        ulid = container.ref.ulid
        if ulid in self._idle:
            _, idle, watch = self._idle[ulid]
            self._idle[ulid] = (container, replace(idle, alive=False), watch)
            log.warning("container.died_idle", container=ulid)
            self._update()

    def _handle_failure(self, key: PoolKey, problem: EngineError) -> None:
        """Start a backoff, assign available containers, and raise the error in this key's other waiters."""
        now = self._clock.monotonic()
        # Otherwise, this creation began before the last failure: count the same problem once.
        if now >= self._blocked_until:
            self.failures += 1
            self._blocked_until = now + compute_backoff_delay_s(self.failures)
        if self.failures >= CIRCUIT_OPEN_FAILURES:
            self.circuit_open.set()
        log.error("container.create_failed", code=problem.code, failures=self.failures)
        self._update()
        for waiter in [w for w in self._waiting.list_in_order() if w.lease_holder.key == key]:
            self._waiting.remove(waiter.name)
            if not waiter.future.done():
                waiter.future.set_exception(problem)

    def remove_idle_containers(self, reason: str) -> None:
        """Remove all idle containers, because new containers will have different properties."""
        for ulid in list(self._idle):
            self._retire_idle(ulid, reason)
        self._update()

    def _retire_idle(self, ulid: str, reason: str) -> None:
        container, _ = self._take_idle(ulid)
        log.debug("container.retired", container=ulid, reason=reason)
        self._start_removal(container)

    def _start_removal(self, container: Container) -> None:
        self._removing.add(container.ref.ulid)
        self._create_task(self._remove_container(container), "pool-remove")

    async def _remove_container(self, container: Container) -> None:
        ulid = container.ref.ulid
        await pause(QUICK_YIELD_S if self._is_quick else YIELD_S, unless=self._may_clean_up)
        try:
            await run_cleanup(container.remove(), timeout_s=REMOVE_TIMEOUT_S)
        except Exception as problem:
            self.stuck[ulid] = container
            self._stuck_again_at = self._clock.monotonic() + STUCK_REMOVAL_RETRY_S
            log.critical("container.left_behind", container=ulid, problem=str(problem), exc_info=problem)
        else:
            log.debug("container.removed", container=ulid)
        finally:
            self._removing.discard(ulid)
        self._update()

    def forget(self, ulid: str) -> None:
        """Release the slot of a container that another component has removed."""
        self.stuck.pop(ulid, None)
        self._update()

    def _retry_stuck_removals(self) -> None:
        """Retry the removal of stuck containers.

        If the engine's answer timed out, the engine can still have removed the container, so that no sweep
        finds it.
        """
        now = self._clock.monotonic()
        if self.stuck and now >= self._stuck_again_at:
            self._stuck_again_at = now + STUCK_REMOVAL_RETRY_S
            for ulid in list(self.stuck):
                self._start_removal(self.stuck.pop(ulid))

    async def _run_periodically(self) -> None:
        while True:
            await asyncio.sleep(TICK_INTERVAL_S)
            self._retry_stuck_removals()
            self._update()


SWEEP_INTERVAL_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReport:
    """The result of a sweep: the names of removed containers, and of those that couldn't be removed."""

    removed: tuple[str, ...]
    left: tuple[str, ...]


def accept_any_executor(executor: str) -> bool:
    """Return True, to accept the containers of the daemon and of every executor."""
    return True


class Reaper:
    """A remover of this process's containers that aren't live.

    `live` returns the containers that the pool knows; `on_gone` is called with the name of each removed
    container. `owns` returns whether this process is responsible for the containers of an executor, whose
    number is passed as text, or of the daemon itself, for which the text is empty.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        daemon_id: str,
        live: Callable[[], frozenset[str]],
        on_gone: Callable[[str], None],
        owns: Callable[[str], bool] = accept_any_executor,
    ) -> None:
        self._engine = engine
        self._daemon_id = daemon_id
        self._live = live
        self._on_gone = on_gone
        self._owns = owns
        self._suspects: frozenset[str] = frozenset()

    def create_executor_reaper(self, number: int) -> Reaper:
        """Return a reaper for all containers of an executor that has ended."""
        return Reaper(
            engine=self._engine,
            daemon_id=self._daemon_id,
            live=frozenset,
            on_gone=lambda _: None,
            owns=str(number).__eq__,
        )

    async def sweep(self, *, patient: bool = True) -> SweepReport:
        """Remove unknown containers, and return a report.

        The engine lists a new container shortly before the pool does. Therefore, if `patient` is true, only
        containers that were also unknown at the previous sweep are removed.

        Raises: EngineError, if the engine can't be reached.
        """
        found = await self._engine.list_owned(self._daemon_id)
        owned = [one for one in found if self._owns(one.labels.get(LABEL_EXECUTOR, ""))]
        live = self._live()
        unknown = [c for c in owned if _format_container_name(c) not in live]
        due = [c for c in unknown if not patient or c.engine_id in self._suspects]
        self._suspects = frozenset(c.engine_id for c in unknown)
        results = [(_format_container_name(c), await self._remove_container(c)) for c in due]
        reaped = SweepReport(
            removed=tuple(n for n, gone in results if gone),
            left=tuple(n for n, gone in results if not gone),
        )
        if results:
            log.warning("containers.reaped", removed=len(reaped.removed), left=list(reaped.left))
        return reaped

    async def _remove_container(self, container: OwnedContainer) -> bool:
        try:
            await self._engine.remove(
                ContainerRef(engine_id=container.engine_id, ulid=_format_container_name(container))
            )
        except EngineError as problem:
            log.critical(
                "container.left_behind", container=_format_container_name(container), code=problem.code
            )
            return False
        self._on_gone(_format_container_name(container))
        return True

    async def sweep_periodically(self) -> None:
        """Sweep periodically until cancellation. If the engine is down, retry after the next interval."""
        while True:
            await asyncio.sleep(SWEEP_INTERVAL_S)
            try:
                await self.sweep()
            except EngineError as problem:
                log.error("containers.sweep_failed", code=problem.code)


def _format_container_name(container: OwnedContainer) -> str:
    return container.labels.get(LABEL_CONTAINER, container.engine_id)
