"""Decides when to send units to the runner: ahead of their turn, as far as a pipe holds them. Pure.

The runner leaves what was sent ahead unread until the unit before is dead, so nothing of it is in any process
of the container. Where it depends on how a unit ends what comes next, and under an allowlist, whose
connections need the stream, each unit is sent when the one before it is dead. Where the last unit may be sent
again, without its check, the end is not sent ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from assayd.model.policy import NetworkMode
from assayd.model.run import RunSpec
from assayd.sandbox.session.handshake import FINISH, unit_frames

AHEAD_BYTES = 32 * 2**10
"""How much may be sent before it has run: half a pipe, so that sending never waits."""


class Ahead:
    """The frames of an attempt's units, and of its end, in the portions in which they are sent."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._alone = (
            spec.stop_on_failure
            or spec.network.mode is NetworkMode.ALLOWLIST
            or any(unit.log is not None for unit in spec.units)
        )
        self._frames = self._all()
        self._next: bytes | None = next(self._frames, None)
        self._under_way: deque[int] = deque()

    def due(self) -> bytes:
        """Return the units to send now: at least the next one, unless it was already sent."""
        portion = []
        while self._next is not None and self._may_go(self._next):
            portion.append(self._next)
            self._under_way.append(len(self._next))
            self._next = next(self._frames, None)
        return b"".join(portion)

    def ended(self) -> None:
        """Note that the first unit under way has ended."""
        self._under_way.popleft()

    def finish(self) -> bytes:
        """Return the frame that ends the conversation, unless it was sent ahead."""
        return b"" if self._under_way else FINISH

    def _may_go(self, frames: bytes) -> bool:
        if not self._under_way:
            return True
        return not self._alone and sum(self._under_way) + len(frames) <= AHEAD_BYTES

    def _all(self) -> Iterator[bytes]:
        last = len(self._spec.units) - 1
        for index, unit in enumerate(self._spec.units):
            yield b"".join(unit_frames(index, unit, more=index < last))
        if not self._alone and not any(unit.without_check for unit in self._spec.units[-1:]):
            yield FINISH
