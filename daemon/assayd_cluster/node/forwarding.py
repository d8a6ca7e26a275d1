"""Forwards the events of all running runs to the gateway, together and several times a second.

Output that can't be sent is dropped. Other events are sent again while the gateway doesn't respond, because a
gateway takes back a run that reports nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from assayd.attempts.events import OUTPUT
from assayd.errors import AssaydError
from assayd_client.answers import StreamEvent
from assayd_cluster.node.gateway_link import AssignedRun, GatewayClient, GatewayUnavailable

log = structlog.get_logger()

EVERY_S = 0.25
MOST_WAITING = 500
"""Maximum number of events of one run to keep between two transmissions; other events are dropped."""

Event = dict[str, object]


class EventForwarder:
    """A collector of events from all threads, whose method `send` is called in one thread."""

    def __init__(self, gateway: GatewayClient) -> None:
        self._gateway = gateway
        self._lock = threading.Lock()
        self._waiting: dict[AssignedRun, list[Event]] = {}

    @contextmanager
    def forward_events(self, run: AssignedRun) -> Iterator[Callable[[StreamEvent], None]]:
        """Yield a callback that forwards a run's events while the body runs."""

        def forward(event: StreamEvent) -> None:
            told = to_live_event(event)
            with self._lock:
                waiting = self._waiting.setdefault(run, [])
                if told is not None and len(waiting) < MOST_WAITING:
                    waiting.append(told)

        try:
            yield forward
        finally:
            with self._lock:
                self._waiting.pop(run, None)

    def send(self) -> None:
        """Send the events that were collected since the last call."""
        with self._lock:
            batches = [(run, events) for run, events in self._waiting.items() if events]
            self._waiting.update((run, []) for run, _ in batches)
        for run, events in batches:
            try:
                self._gateway.send_events(run, events)
            except GatewayUnavailable:
                self._requeue_events(run, events)
            except AssaydError as trouble:
                log.debug("events.dropped", code=trouble.code, count=len(events))

    def _requeue_events(self, run: AssignedRun, events: list[Event]) -> None:
        """Queue events that weren't sent again, in front of newer ones, unless the run has ended."""
        with self._lock:
            waiting = self._waiting.get(run)
            if waiting is not None:
                lasting = [event for event in events if event["kind"] not in OUTPUT]
                waiting[:0] = lasting[: MOST_WAITING - len(waiting)]


def to_live_event(event: StreamEvent) -> Event | None:
    """Return an event in the gateway's format, or None for events that the gateway creates itself."""
    run, seq = (int(number) for number in event.id.split("."))
    state = event.body.get("state") if event.kind == "state" else None
    if event.kind == "finished" or state in {"queued", "finished"}:
        return None
    return {"run": run, "seq": seq, "kind": event.kind, "at": event.at, "body": event.body}
