"""One access to a host: checks each new fact, connects, and records the access, also in log and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from assayd.aio import open_first_available
from assayd.clock import Clock
from assayd.egress.decision import (
    AccessNotServedError,
    AccessRequest,
    Decision,
    InvalidTarget,
    Public,
    Target,
    build_rule_violation_error,
    decide_access,
    failed,
    refused,
)
from assayd.egress.resolver import NameLookup, Resolver
from assayd.egress.turns import ThresholdSemaphore, Turn
from assayd.findings.network_rules import NetworkRule, NetworkTrouble
from assayd.guest.frames import MIN_WINDOW_COST
from assayd.metrics import Metrics
from assayd.model.policy import NetworkPolicy
from assayd.model.run import AccessProtocol, NetworkEvent
from assayd.ports.egress import EgressLimits

log = structlog.get_logger()


class LedgerEntry:
    """One access in progress."""

    def __init__(self, ledger: EgressLedger, unit: int, target: Target | InvalidTarget) -> None:
        self._ledger = ledger
        self.unit = unit
        self._began = ledger.clock.monotonic()
        self._open = True
        self.event = NetworkEvent(
            host=target.host,
            port=target.port,
            via=target.via,
            method=target.method,
            allowed=True,
            rule=NetworkRule.LISTED.value,
            reason="",
        )

    def record_address(self, address: str) -> None:
        """Record the address to which the access is connected."""
        self.event = replace(self.event, address=address)

    def sent(self, count: int) -> None:
        """Count bytes that were forwarded to the host."""
        self.event = replace(self.event, bytes_up=self.event.bytes_up + count)

    def received(self, count: int) -> None:
        """Count bytes received from the host.

        Raises: AccessNotServedError, if the attempt has reached its limit.
        """
        self.event = replace(self.event, bytes_down=self.event.bytes_down + count)
        self._ledger.spend_received_bytes(count)

    def charge_excess_cost(self, extra: int) -> None:
        """Charge the part of the events' cost that exceeds their bytes.

        Raises: AccessNotServedError, if the attempt has reached its limit.
        """
        self._ledger.charge_host_bytes(extra)

    def record_failure(self, end: AccessNotServedError) -> None:
        """Record the reason why the access wasn't served completely."""
        if isinstance(end.why, NetworkRule):
            self.event = replace(self.event, allowed=False, rule=end.why.value, reason=end.reason)
        else:
            self.event = replace(self.event, trouble=end.why.value)

    def mark_unfinished(self) -> None:
        """Record that the unit ended before the access."""
        self.event = replace(self.event, finished=False)

    def close(self) -> None:
        """Record the end of the access. Further calls do nothing."""
        if self._open:
            self._open = False
            duration_s = self._ledger.clock.monotonic() - self._began
            self.event = replace(self.event, duration_s=duration_s)
            self._ledger.log_event(self.event)


class EgressLedger:
    """The ledger of one attempt, with all of its accesses."""

    def __init__(self, limits: EgressLimits, clock: Clock, metrics: Metrics) -> None:
        self.clock = clock
        self._metrics = metrics
        self._connections = limits.connections
        self._up = limits.bytes_up
        self._down = limits.bytes_down
        self._entries: list[LedgerEntry] = []
        self._used_up: set[int] = set()

    def open(self, unit: int, target: Target | InvalidTarget) -> LedgerEntry:
        """Begin an access.

        Raises: AccessNotServedError, if the attempt has reached its limit; this is recorded once per unit.
        """
        if len(self._entries) >= self._connections:
            self.record_limit_exceeded(unit, target)
            raise build_rule_violation_error(NetworkRule.TOO_MANY_CONNECTIONS)
        entry = LedgerEntry(self, unit, target)
        self._entries.append(entry)
        return entry

    def record_unreadable(self, unit: int, end: AccessNotServedError) -> None:
        """Record an unreadable request.

        Raises: AccessNotServedError, if the attempt has reached its limit.
        """
        entry = self.open(unit, InvalidTarget(via=AccessProtocol.HTTP, rule=NetworkRule.HTTP_MALFORMED))
        entry.record_failure(end)
        entry.close()

    def record_limit_exceeded(self, unit: int, target: Target | InvalidTarget | None = None) -> None:
        """Record, once per unit, that the unit exceeded the limit on connections."""
        if unit not in self._used_up:
            self._used_up.add(unit)
            entry = LedgerEntry(
                self,
                unit,
                target or InvalidTarget(via=AccessProtocol.TLS, rule=NetworkRule.TOO_MANY_CONNECTIONS),
            )
            self._entries.append(entry)
            entry.record_failure(build_rule_violation_error(NetworkRule.TOO_MANY_CONNECTIONS))
            entry.close()

    def spend_sent_bytes(self, count: int) -> None:
        """Charge bytes to the budget of sent bytes.

        Raises: AccessNotServedError, if the budget is exceeded.
        """
        self._metrics.egress_bytes.labels("up").inc(count)
        self.charge_guest_bytes(max(count, MIN_WINDOW_COST))

    def spend_received_bytes(self, count: int) -> None:
        """Charge bytes to the budget of received bytes.

        Raises: AccessNotServedError, if the budget is exceeded.
        """
        self._metrics.egress_bytes.labels("down").inc(count)
        self.charge_host_bytes(max(count, MIN_WINDOW_COST))

    def charge_guest_bytes(self, cost: int) -> None:
        """Charge the bytes read from guest code. Raises: AccessNotServedError, if the budget is exceeded."""
        self._up -= cost
        if self._up < 0:
            raise build_rule_violation_error(NetworkRule.TOO_MANY_BYTES)

    def charge_host_bytes(self, cost: int) -> None:
        """Charge the bytes read from a host. Raises: AccessNotServedError, if the budget is exceeded."""
        self._down -= cost
        if self._down < 0:
            raise build_rule_violation_error(NetworkRule.TOO_MANY_BYTES)

    def events(self, unit: int) -> tuple[NetworkEvent, ...]:
        """Return the accesses of a unit as events, in order."""
        return tuple(entry.event for entry in self._entries if entry.unit == unit)

    def log_event(self, event: NetworkEvent) -> None:
        """Write the log entry and the metrics of a finished access."""
        self._metrics.egress_accesses.labels(event.trouble or event.rule).inc()
        log.info(
            "egress.served" if event.allowed else "egress.refused",
            host=event.host,
            port=event.port,
            via=event.via.value,
            rule=event.rule,
            trouble=event.trouble,
            address=event.address,
            bytes_up=event.bytes_up,
            bytes_down=event.bytes_down,
            duration_ms=round(event.duration_s * 1000, 3),
        )


@asynccontextmanager
async def limit_idle_time(idle_s: float) -> AsyncIterator[Callable[[], None]]:
    """While the body runs, limit the time between calls of the yielded function to `idle_s` seconds.

    Raises: AccessNotServedError ``network.idle``, if the time is exceeded.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(idle_s) as timeout:

            def moved() -> None:
                # An expired timeout is already being raised and can't be rescheduled.
                if not timeout.expired():
                    timeout.reschedule(loop.time() + idle_s)

            yield moved
    except TimeoutError:
        raise failed(NetworkTrouble.IDLE) from None


READ_CHUNK_BYTES = 32 * 1024
AHEAD_BYTES = 1
"""The stream's buffer size. The socket is read again only when its bytes are consumed, so that a host that
sends slowly takes turns too.
"""
MAX_TRIES = 4
"""Maximum addresses to try per name."""


class Upstream:
    """The host's end of an access. All of its failures are raised as AccessNotServedError."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, entry: LedgerEntry, turn: Turn
    ) -> None:
        self._reader = reader
        self._writer = writer
        self.entry = entry
        self.turn = turn

    async def read(self) -> bytes:
        """Wait for a turn, and return the next bytes. The result is empty once the host has sent everything.

        Raises: AccessNotServedError, if the connection breaks or the attempt has reached its limit.
        """
        try:
            data = await self._reader.read(READ_CHUNK_BYTES)
        except OSError as problem:
            raise failed(NetworkTrouble.BROKEN_OFF) from problem
        if data:
            self.entry.received(len(data))
        await self.turn()
        return data

    async def send(self, data: bytes) -> None:
        """Send bytes at the speed at which the host reads them.

        Raises: AccessNotServedError, if the connection breaks.
        """
        self.entry.sent(len(data))
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as problem:
            raise failed(NetworkTrouble.BROKEN_OFF) from problem

    def end(self) -> None:
        """Signal the end of the data to the host. Raises: AccessNotServedError, if the connection breaks."""
        try:
            self._writer.write_eof()
        except OSError as problem:
            raise failed(NetworkTrouble.BROKEN_OFF) from problem


@asynccontextmanager
async def connect_upstream(
    addresses: Sequence[str], port: int, entry: LedgerEntry, *, timeout_s: float, turn: Turn
) -> AsyncIterator[Upstream]:
    """Connect to the first address that responds. Close the connection after the body.

    Raises: AccessNotServedError, if no address responds in time.
    """
    reader, writer, address = await _connect_first(addresses[:MAX_TRIES], port, timeout_s)
    try:
        entry.record_address(address)
        yield Upstream(reader, writer, entry, turn)
    finally:
        writer.transport.abort()


async def _connect_first(
    addresses: Sequence[str], port: int, timeout_s: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
    """Return a connection to the first address that responds, and that address.

    Try each address for its share of the remaining time.

    Raises: AccessNotServedError, if no address responds.
    """

    async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
        reader, writer = await asyncio.open_connection(address, port, limit=AHEAD_BYTES)
        return reader, writer, address

    try:
        until = asyncio.get_running_loop().time() + timeout_s
        return await open_first_available(addresses, connect, until=until)
    except TimeoutError:
        raise failed(NetworkTrouble.TIMED_OUT) from None
    except OSError:
        raise failed(NetworkTrouble.UNREACHABLE) from None


T = TypeVar("T")

LOOK_UPS = 2
"""Maximum concurrent name resolutions of one attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressContext:
    """The context of an attempt's accesses: its policy, resolver, address check and ledger.

    `places` limits the connections of all attempts; an access waits at most `wait_s` seconds for a free
    slot. `turn` waits for the connection's next turn in the event loop.
    """

    owner: int
    policy: NetworkPolicy
    resolver: Resolver
    public: Public
    places: ThresholdSemaphore
    wait_s: float
    look_ups: asyncio.Semaphore
    ledger: EgressLedger
    turn: Turn


class Access:
    """One access: the facts known so far, and the outcome."""

    def __init__(self, way: EgressContext, target: Target | InvalidTarget, entry: LedgerEntry) -> None:
        self._way = way
        self._ask = AccessRequest(target=target)
        self._target = target
        self.entry = entry

    def add_facts(
        self,
        *,
        named: str | None = None,
        addresses: tuple[str, ...] | None = None,
        server_name: str | NetworkRule | None = None,
    ) -> Decision:
        """Add facts about the access, and check all facts known so far.

        Raises: AccessNotServedError, if a rule denies the access.
        """
        ask = self._ask
        self._ask = replace(
            ask,
            named=ask.named if named is None else named,
            addresses=ask.addresses if addresses is None else addresses,
            server_name=ask.server_name if server_name is None else server_name,
        )
        decision = decide_access(self._way.policy, self._ask, self._way.public)
        if not decision.allowed:
            raise refused(decision)
        return decision

    def target(self) -> Target:
        """Return the target of an access that the rules have allowed."""
        assert isinstance(self._target, Target)  # noqa: S101 - `add_facts` refuses invalid ones
        return self._target

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Upstream]:
        """Resolve the name, check the addresses, and connect to an allowed address.

        Raises: AccessNotServedError, if any of these steps fails.
        """
        target, way = self.target(), self._way
        found, left_s = await self._resolve_target(target)
        if not found:
            raise failed(NetworkTrouble.NOT_RESOLVED)
        addresses = self.add_facts(addresses=found).addresses
        await wait_for_slot(way.places.acquire(way.owner), way.wait_s)
        try:
            async with connect_upstream(
                addresses, target.port, self.entry, timeout_s=left_s, turn=way.turn
            ) as upstream:
                yield upstream
        finally:
            way.places.release(way.owner)

    async def _resolve_target(self, target: Target) -> tuple[tuple[str, ...], float]:
        """Return the target's addresses, and the number of seconds that remain to connect.

        The wait for a free slot isn't counted. Raises: AccessNotServedError, if no slot becomes free or the
        time runs out.
        """
        way = self._way
        looking = NameLookup(host=target.host, port=target.port, owner=way.owner, own=way.look_ups)
        _, left_s = await run_with_remaining_time(looking.own.acquire(), way.policy.connect_timeout_s)
        await wait_for_slot(way.resolver.acquire(looking), way.wait_s)
        return await run_with_remaining_time(way.resolver.resolve(looking), left_s)


async def run_with_remaining_time(work: Coroutine[object, object, T], left_s: float) -> tuple[T, float]:
    """Return the result of `work`, and the remaining seconds.

    Raises: AccessNotServedError, if no time remains.
    """
    until = asyncio.get_running_loop().time() + left_s
    try:
        async with asyncio.timeout_at(until):
            result = await work
    except TimeoutError:
        raise failed(NetworkTrouble.TIMED_OUT) from None
    return result, until - asyncio.get_running_loop().time()


async def wait_for_slot(waiting: Coroutine[object, object, None], wait_s: float) -> None:
    """Wait up to `wait_s` seconds for a slot of the relay.

    Raises: AccessNotServedError ``network.relay_full``, if no slot becomes free.
    """
    try:
        async with asyncio.timeout(wait_s):
            await waiting
    except TimeoutError:
        raise failed(NetworkTrouble.RELAY_FULL) from None


@contextmanager
def record_access(way: EgressContext, unit: int, target: Target | InvalidTarget) -> Iterator[Access]:
    """Record an access and its outcome while the body serves it.

    Raises: AccessNotServedError, if the attempt has reached its limit.
    """
    entry = way.ledger.open(unit, target)
    try:
        yield Access(way, target, entry)
    except AccessNotServedError as end:
        entry.record_failure(end)
        raise
    except asyncio.CancelledError:
        entry.mark_unfinished()
        raise
    finally:
        entry.close()
