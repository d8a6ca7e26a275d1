"""The egress of a container without network devices: the interface between the sandbox and the relay.

The sandbox converts frames to byte streams, one for each connection of guest code to the proxy in its
container. The relay reads requests from these streams, allows or denies them, connects to hosts, and
records accesses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from assayd.model.policy import NetworkPolicy
from assayd.model.run import NetworkEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressLimits:
    """The relay limits of one attempt, except `open_at_once`, which limits all attempts in total.

    `streams` limits simultaneous connections to the proxy; further connections wait. `connections` limits
    the total number of connections of an attempt, and of requests. Bytes from guest code (up) and from
    hosts (down) are counted separately; a small piece is counted as `guest.frames.MIN_WINDOW_COST` bytes.
    `head_s` limits the time from the beginning to the end of a request head or ClientHello, and the time in
    which guest code must close a connection. `idle_s` limits the time without a byte in either direction.
    `place_s` limits the wait for a free slot of the relay or of name resolution.
    """

    streams: int = 32
    connections: int = 512
    bytes_up: int = 32 * 2**20
    bytes_down: int = 64 * 2**20
    open_at_once: int = 256
    head_s: float = 10.0
    idle_s: float = 30.0
    place_s: float = 10.0


class GuestStream(Protocol):
    """The relay's end of one connection of guest code, whose data is hostile."""

    async def read(self) -> bytes:
        """Return the next bytes, or no bytes at the end of the guest's data or of the connection."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes to the guest. Wait while the guest doesn't read.

        Raises: ConnectionResetError, if the connection is closed.
        """
        ...

    async def end(self) -> None:
        """Signal the end of data to the guest, which can still send data."""
        ...

    async def reset(self) -> None:
        """Reset the connection, so that the guest doesn't mistake partial data for complete data."""
        ...


class EgressSession(Protocol):
    """The egress of one attempt, with its allowlist, budgets and records."""

    @property
    def limits(self) -> EgressLimits:
        """Return the limits of the attempt."""
        ...

    async def serve(self, stream: GuestStream, unit: int) -> None:
        """Serve one connection of a unit until it ends. Cancellation releases all its resources."""
        ...

    def record_limit_reached(self, unit: int) -> None:
        """Record that a unit was refused a connection because the attempt reached its limit."""
        ...

    def events(self, unit: int) -> tuple[NetworkEvent, ...]:
        """Return the accesses of a unit, in order. Must be called after the unit's streams have ended."""
        ...


class Egress(Protocol):
    """A factory of egress sessions for attempts whose policy has an allowlist."""

    def session(self, policy: NetworkPolicy, owner: int = 0) -> EgressSession:
        """Return a session for an attempt. `owner` is the id of the user who owns the attempt."""
        ...
