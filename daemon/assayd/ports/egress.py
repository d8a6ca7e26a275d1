"""The egress of a container without a network: what the sandbox and the egress side need of each other.

The sandbox turns frames into streams of bytes, one per connection that guest code makes to the proxy in its
container. The egress side reads the requests there, decides, connects, and keeps the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from assayd.model.policy import NetworkPolicy
from assayd.model.run import NetworkEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressLimits:
    """What one attempt may use of the relay, and, with `open_at_once`, all together.

    `streams` are connections to the proxy that are open at once; more wait. `connections` counts all that an
    attempt makes, and the requests on them. Bytes are those of guest code, up, and of hosts, down; small
    pieces count as `guest.frames.LEAST_COST`. `head_s` is how long a request's head, or a ClientHello, may
    take to arrive once it has begun, and how long guest code may take to hang up; `idle_s` how long a
    connection may stay without a byte in either direction; `place_s` how long one waits for a place of the
    relay, or of a look-up.
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
    """One connection of guest code, on the egress side. Its data is hostile."""

    async def read(self) -> bytes:
        """Return the next bytes; empty when the guest has ended its side, or the connection is gone."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes, as fast as the guest takes them.

        Raises: ConnectionResetError when the connection is gone.
        """
        ...

    async def end(self) -> None:
        """Signal that nothing more will be written. The guest's side may go on."""
        ...

    async def reset(self) -> None:
        """Break the connection off, so that the guest does not take what it got for the whole."""
        ...


class EgressSession(Protocol):
    """The egress of one attempt: its list, its budgets, its record."""

    @property
    def limits(self) -> EgressLimits:
        """What the attempt may use."""
        ...

    async def serve(self, stream: GuestStream, unit: int) -> None:
        """Serve one connection of a unit to its end. Cancelling it drops whatever it holds."""
        ...

    def used_up(self, unit: int) -> None:
        """Record that a unit was refused a connection because the attempt reached its limit."""
        ...

    def events(self, unit: int) -> tuple[NetworkEvent, ...]:
        """Return what a unit asked for, in the order in which it did; after its streams have ended."""
        ...


class Egress(Protocol):
    """Opens egress for attempts whose policy has an allowlist."""

    def session(self, policy: NetworkPolicy, owner: int = 0) -> EgressSession:
        """Begin an attempt of a user."""
        ...
