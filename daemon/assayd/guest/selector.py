"""Watches descriptors and calls their callbacks; faster to import than the standard module `selectors`."""

from __future__ import annotations

from select import EPOLLIN, EPOLLOUT, EPOLLRDHUP, epoll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ, WRITE, HANG_UP = EPOLLIN, EPOLLOUT, EPOLLRDHUP
"""Events to wait for; a closed peer is always reported."""


class Selector:
    """A set of descriptors with callbacks, called when a descriptor is readable, writable or closed."""

    def __init__(self) -> None:
        self._poll = epoll()
        self._calls: dict[int, Callable[[], None]] = {}

    def register(self, descriptor: int, events: int, call: Callable[[], None]) -> None:
        """Watch a descriptor. Raises: OSError if it is already watched or cannot be watched."""
        self._poll.register(descriptor, events)
        self._calls[descriptor] = call

    def modify(self, descriptor: int, events: int) -> None:
        """Change the watched events of a descriptor."""
        self._poll.modify(descriptor, events)

    def unregister(self, descriptor: int) -> None:
        """Stop watching a descriptor that is still open."""
        del self._calls[descriptor]
        self._poll.unregister(descriptor)

    def wait(self, most_s: float | None) -> bool:
        """Wait for a ready descriptor until the timeout; return whether any callback was called."""
        ready = self._poll.poll(most_s)
        for descriptor, _ in ready:
            # A call may have closed a pipe that became ready in the same round.
            call = self._calls.get(descriptor)
            if call is not None:
                call()
        return bool(ready)
