"""The relay: a separate session, with its allowlist and budgets, for each attempt with an allowlist."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from itertools import count

import h11

from assayd.egress.access import LOOK_UPS, EgressContext, record_access
from assayd.egress.decision import AccessNotServed
from assayd.egress.forward import serve_request
from assayd.egress.guest import GuestConnection
from assayd.egress.ledger import EgressLedger
from assayd.egress.resolver import LookUp, Resolver, resolve_blocking
from assayd.egress.target import Public, is_public, read_target
from assayd.egress.tunnel import serve_tunnel
from assayd.egress.turns import ThresholdSemaphore, TurnScheduler
from assayd.metrics import Metrics
from assayd.model.policy import NetworkPolicy
from assayd.model.run import AccessProtocol
from assayd.ports.clock import Clock
from assayd.ports.egress import EgressLimits, GuestStream


class Relay:
    """The relay for guest code's connections. It implements `ports.egress.Egress`.

    Args:
        limits: the limits of each attempt, and of all attempts together.
        clock: measures the duration of accesses.
        metrics: the counters.
        look_up: a function that resolves a name.
        public: returns whether an address counts as public.
    """

    def __init__(
        self,
        limits: EgressLimits,
        clock: Clock,
        metrics: Metrics,
        *,
        look_up: LookUp = resolve_blocking,
        public: Public = is_public,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._metrics = metrics
        self._resolver = Resolver(look_up)
        self._public = public
        self._places = ThresholdSemaphore(limits.open_at_once)
        self._turns = TurnScheduler()
        self._lanes = count()

    def session(self, policy: NetworkPolicy, owner: int = 0) -> RelaySession:
        """Return a session for an attempt. Args: `owner` is the user's id."""
        way = EgressContext(
            owner=owner,
            policy=policy,
            resolver=self._resolver,
            public=self._public,
            places=self._places,
            wait_s=self._limits.place_s,
            look_ups=asyncio.Semaphore(LOOK_UPS),
            ledger=EgressLedger(self._limits, self._clock, self._metrics),
            turn=partial(self._turns.wait_for_turn, owner, str(next(self._lanes))),
        )
        return RelaySession(way, self._limits)


class RelaySession:
    """The relay's session for one attempt. It implements `ports.egress.EgressSession`."""

    def __init__(self, way: EgressContext, limits: EgressLimits) -> None:
        self._way = way
        self.limits = limits
        self.used_up = way.ledger.record_limit_exceeded
        self.events = way.ledger.events

    async def serve(self, stream: GuestStream, unit: int) -> None:
        """Serve one connection of a unit, request by request."""
        guest = GuestConnection(stream, self._way.ledger, self.limits, self._way.turn)
        with suppress(ConnectionResetError):  # the container has disconnected
            try:
                while await self._serve_next(guest, unit):
                    pass
                await guest.drain_and_close()
            except AccessNotServed as end:
                await guest.refuse(end)

    async def _serve_next(self, guest: GuestConnection, unit: int) -> bool:
        """Serve the next request, if any; return whether another request may follow."""
        request = await self._read_request(guest, unit)
        if request is None:
            return False
        target = read_target(request.method.decode("ascii"), request.target.decode("ascii"))
        with record_access(self._way, unit, target) as asked:
            if target.via is AccessProtocol.TLS:
                await serve_tunnel(guest, asked)
                return False
            return await serve_request(guest, asked, request)

    async def _read_request(self, guest: GuestConnection, unit: int) -> h11.Request | None:
        """Read the next request; if it is unreadable, record that."""
        try:
            return await guest.request()
        except AccessNotServed as end:
            self._way.ledger.record_unreadable(unit, end)
            raise
