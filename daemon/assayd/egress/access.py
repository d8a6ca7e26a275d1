"""One host that guest code asks for: judged with each thing that is learnt, connected, put on record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from assayd.egress.addresses import Public
from assayd.egress.decision import AccessRequest, Decision, decide
from assayd.egress.ledger import Entry, Ledger
from assayd.egress.places import ThresholdSemaphore
from assayd.egress.refusal import NotServed, failed, refused
from assayd.egress.resolver import Looking, Resolver
from assayd.egress.target import NoTarget, Target
from assayd.egress.turns import Turn
from assayd.egress.upstream import Upstream, connected
from assayd.findings.network_rules import NetworkRule, NetworkTrouble
from assayd.model.policy import NetworkPolicy

T = TypeVar("T")

LOOK_UPS = 2
"""Look-ups of one attempt that may be under way at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How one attempt gets out: what it may reach, who resolves, which addresses are public, its record.

    `places` bound the connections of all attempts and are waited for so long; `turn` waits for the event
    loop's next turn.
    """

    owner: int
    policy: NetworkPolicy
    resolver: Resolver
    public: Public
    places: ThresholdSemaphore
    wait_s: float
    look_ups: asyncio.Semaphore
    ledger: Ledger
    turn: Turn


class Access:
    """The facts of one access, and its outcome."""

    def __init__(self, way: Way, target: Target | NoTarget, entry: Entry) -> None:
        self._way = way
        self._ask = AccessRequest(target=target)
        self._target = target
        self.entry = entry

    def learn(
        self,
        *,
        named: str | None = None,
        addresses: tuple[str, ...] | None = None,
        server_name: str | NetworkRule | None = None,
    ) -> Decision:
        """Judge by the known facts and the new ones.

        Raises: NotServed when a rule refuses.
        """
        ask = self._ask
        self._ask = replace(
            ask,
            named=ask.named if named is None else named,
            addresses=ask.addresses if addresses is None else addresses,
            server_name=ask.server_name if server_name is None else server_name,
        )
        decision = decide(self._way.policy, self._ask, self._way.public)
        if not decision.allowed:
            raise refused(decision)
        return decision

    def target(self) -> Target:
        """Return the target of an access that the rules have let through."""
        assert isinstance(self._target, Target)  # noqa: S101 - `learn` refuses what is none
        return self._target

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Upstream]:
        """Resolve, judge the addresses, and connect to one of those that were judged.

        Raises: NotServed.
        """
        target, way = self.target(), self._way
        found, left_s = await self._resolved(target)
        if not found:
            raise failed(NetworkTrouble.NOT_RESOLVED)
        addresses = self.learn(addresses=found).addresses
        await granted(way.places.acquire(way.owner), way.wait_s)
        try:
            async with connected(
                addresses, target.port, self.entry, timeout_s=left_s, turn=way.turn
            ) as upstream:
                yield upstream
        finally:
            way.places.release(way.owner)

    async def _resolved(self, target: Target) -> tuple[tuple[str, ...], float]:
        """Return the target's addresses, and the remaining time to connect.

        Waiting for a place takes nothing of that time. Raises: NotServed.
        """
        way = self._way
        looking = Looking(host=target.host, port=target.port, owner=way.owner, own=way.look_ups)
        _, left_s = await timed(looking.own.acquire(), way.policy.connect_timeout_s)
        await granted(way.resolver.acquire(looking), way.wait_s)
        return await timed(way.resolver.resolve(looking), left_s)


async def timed(work: Coroutine[object, object, T], left_s: float) -> tuple[T, float]:
    """Return the result of the work and the remaining time. Raises: NotServed if none remains."""
    until = asyncio.get_running_loop().time() + left_s
    try:
        async with asyncio.timeout_at(until):
            result = await work
    except TimeoutError:
        raise failed(NetworkTrouble.TIMED_OUT) from None
    return result, until - asyncio.get_running_loop().time()


async def granted(waiting: Coroutine[object, object, None], wait_s: float) -> None:
    """Wait for a place of the relay. Raises: NotServed ``network.relay_full``."""
    try:
        async with asyncio.timeout(wait_s):
            await waiting
    except TimeoutError:
        raise failed(NetworkTrouble.RELAY_FULL) from None


@contextmanager
def access(way: Way, unit: int, target: Target | NoTarget) -> Iterator[Access]:
    """Put an access on record while the body serves it, and how that ended.

    Raises: NotServed if the attempt has reached its limit.
    """
    entry = way.ledger.open(unit, target)
    try:
        yield Access(way, target, entry)
    except NotServed as end:
        entry.ended_by(end)
        raise
    except asyncio.CancelledError:
        entry.cut_short()
        raise
    finally:
        entry.close()
