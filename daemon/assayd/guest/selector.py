"""Watches descriptors and calls their callbacks, like `selectors` but without the cost of its import."""

from __future__ import annotations

from select import EPOLLIN, EPOLLOUT, EPOLLRDHUP, epoll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ, WRITE, HANG_UP = EPOLLIN, EPOLLOUT, EPOLLRDHUP
"""Events to wait for; a closed peer is always reported."""


class Selector:
    """A set of descriptors with callbacks, which are called when they are readable, writable or closed."""

    def __init__(self) -> None:
        self._poll = epoll()
        self._calls: dict[int, Callable[[], None]] = {}

    def register(self, descriptor: int, events: int, call: Callable[[], None]) -> None:
        """Watch a descriptor. Raises: OSError if it is already watched or cannot be watched."""
        self._poll.register(descriptor, events)
        self._calls[descriptor] = call

    def modify(self, descriptor: int, events: int) -> None:
        """Change the events that a descriptor is watched for."""
        self._poll.modify(descriptor, events)

    def unregister(self, descriptor: int) -> None:
        """Stop watching a descriptor, which must still be open when this is called."""
        del self._calls[descriptor]
        self._poll.unregister(descriptor)

    def wait(self, most_s: float | None) -> bool:
        """Wait until a descriptor is ready or the timeout ends; return whether any callback was called."""
        ready = self._poll.poll(most_s)
        for descriptor, _ in ready:
            # A call may have closed the pipe of one that was ready in the same round.
            call = self._calls.get(descriptor)
            if call is not None:
                call()
        return bool(ready)
