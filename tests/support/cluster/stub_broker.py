"""A broker made of a few lists, at the other end of a channel."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


class StubBroker:
    """A broker's connection and channel in one object; it answers requests for events as configured."""

    def __init__(self) -> None:
        self.events: dict[str, set[Callable[..., None]]] = defaultdict(set)
        self.published: list[Any] = []
        self.asked_after: list[int] = []
        self.closed = False
        self.dropped = False
        self.lost = False
        self.answer: Callable[[StubBroker], None] = lambda broker: broker.tell("ack", len(broker.published))

    def connect(self) -> None:
        """Accept the connection."""

    def channel(self) -> StubBroker:
        return self

    def confirm_select(self) -> None:
        """Accept the request for publisher confirms."""

    def prepare_message(self, body: str, **properties: Any) -> Any:
        return SimpleNamespace(body=json.loads(body), **properties)

    def basic_publish(self, message: Any, **place: Any) -> None:
        if self.lost:
            raise ConnectionResetError
        message.place = place
        self.published.append(message)

    def drain_events(self, timeout: float) -> None:
        assert timeout > 0
        self.asked_after.append(len(self.published))
        self.answer(self)

    def tell(self, what: str, tag: int, *, multiple: bool = True) -> None:
        for callback in self.events[f"basic_{what}"]:
            callback(tag, multiple)

    def close(self) -> None:
        self.closed = True

    def collect(self) -> None:
        self.dropped = True
