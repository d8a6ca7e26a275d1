"""Decides when to send units to the runner: in advance, as long as they fit into a pipe. Pure.

The runner doesn't read a unit that was sent in advance until the previous unit has ended; until then, no
process in the container holds the unit's data. Units are not sent in advance if the end of a unit
determines the next step, or under an allowlist, because connections need the stream. If the last unit can
be repeated without its check, the final frame isn't sent in advance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from assayd.model.policy import NetworkMode
from assayd.model.run import RunSpec
from assayd.sandbox.session.handshake import FINISH, unit_frames

AHEAD_BYTES = 32 * 2**10
"""Maximum bytes to send in advance: half a pipe, so that sending never blocks."""


class SendAheadWindow:
    """The frames of an attempt's units and of its end, in portions that can be sent in advance."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._alone = (
            spec.stop_on_failure
            or spec.network.mode is NetworkMode.ALLOWLIST
            or any(unit.log is not None for unit in spec.units)
        )
        self._frames = self._all_frames()
        self._next: bytes | None = next(self._frames, None)
        self._under_way: deque[int] = deque()

    def due(self) -> bytes:
        """Return the frames to send now: at least the next unit's frames, unless they were already sent."""
        portion = []
        while self._next is not None and self._can_send(self._next):
            portion.append(self._next)
            self._under_way.append(len(self._next))
            self._next = next(self._frames, None)
        return b"".join(portion)

    def ended(self) -> None:
        """Record that the oldest unit in progress has ended."""
        self._under_way.popleft()

    def finish(self) -> bytes:
        """Return the frame that ends the conversation, unless it was sent in advance."""
        return b"" if self._under_way else FINISH

    def _can_send(self, frames: bytes) -> bool:
        if not self._under_way:
            return True
        return not self._alone and sum(self._under_way) + len(frames) <= AHEAD_BYTES

    def _all_frames(self) -> Iterator[bytes]:
        last = len(self._spec.units) - 1
        for index, unit in enumerate(self._spec.units):
            yield b"".join(unit_frames(index, unit, more=index < last))
        if not self._alone and not any(unit.without_check for unit in self._spec.units[-1:]):
            yield FINISH
