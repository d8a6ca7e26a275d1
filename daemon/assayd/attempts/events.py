"""Publishes events; keeps them for followers, and until the verdict also for the store.

Publishing never waits. Each attempt has one log, which each follower reads at a separate pace. Output is
kept in a ring buffer; therefore, a slow or late follower may miss events and then gets a gap event with
their number.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge

from assayd.aio import BroadcastEvent
from assayd.clock import Clock
from assayd.model.records import AttemptEvent

OUTPUT = frozenset({"stdout", "stderr"})
"""The kinds of events that aren't stored."""

GAP = "gap"
"""The kind of the event that replaces lost events. `missed` in its body is their number."""

MAX_RING_BYTES = 128 * 2**10
"""The maximum size of the output kept in memory for each attempt."""

EVENT_OVERHEAD_BYTES = 256
"""The estimated size of an event without text; a program may write its output character by character."""

MAX_ENDED_LOGS = 128
"""The number of ended attempts whose events stay in memory. Those of other attempts are in the store."""

MAX_RECENT_EVENTS = 1024
"""The number of events kept for followers of all attempts."""


class EventHub:
    """The events of all attempts that are running or have recently finished."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logs: dict[str, _AttemptLog] = {}
        self._ended: OrderedDict[str, _AttemptLog] = OrderedDict()
        self._recent: deque[_StreamEvent] = deque(maxlen=MAX_RECENT_EVENTS)
        self._published = 0
        self._generation = f"{clock.now():%Y%m%dT%H%M%S%f}"
        self._stopped = False
        self._any = BroadcastEvent()

    def open(self, attempt_id: str, owner: int, *, behind: int = 0) -> None:
        """Open an attempt's log for the user `owner`. Event numbers start after `behind`."""
        log = self._get_attempt_log(attempt_id)
        log.owner = owner
        if behind:
            log.behind, log.next_seq = behind, behind + 1

    def publish(self, attempt_id: str, run_number: int, kind: str, body: dict[str, object]) -> AttemptEvent:
        """Number an event, send it to all followers, and return it."""
        (event,) = self.number_events(attempt_id, run_number, (kind, body))
        self.deliver(event)
        return event

    def number_events(
        self, attempt_id: str, run_number: int, *bodies: tuple[str, dict[str, object]]
    ) -> tuple[AttemptEvent, ...]:
        """Return events with the next sequence numbers.

        Call `deliver` for each once its content is recorded.
        """
        at, seq = self._clock.now(), self._get_attempt_log(attempt_id).next_seq
        return tuple(
            AttemptEvent(
                attempt_id=attempt_id, run_number=run_number, seq=seq + place, kind=kind, at=at, body=body
            )
            for place, (kind, body) in enumerate(bodies)
        )

    def deliver(self, event: AttemptEvent) -> None:
        """Send a numbered event to all followers."""
        log = self._get_attempt_log(event.attempt_id)
        log.add(event)
        if event.kind not in OUTPUT:
            self._published += 1
            self._recent.append(_StreamEvent(number=self._published, owner=log.owner, event=event))
            self._any.wake_all()

    def _get_attempt_log(self, attempt_id: str) -> _AttemptLog:
        return self._logs.get(attempt_id) or self._logs.setdefault(attempt_id, _AttemptLog())

    def list_durable_events(self, attempt_id: str) -> Sequence[AttemptEvent]:
        """Return the events of an attempt that must be stored. The result is empty if no log is open."""
        log = self._logs.get(attempt_id)
        return tuple(log.durable) if log else ()

    def get_newest_event_number(self, attempt_id: str) -> int:
        """Return the number of the last published event of an attempt, or 0 if none is known here."""
        return self._get_attempt_log(attempt_id).next_seq - 1

    def close(self, attempt_id: str) -> None:
        """Close an attempt's log.

        Followers, and for a while also late followers, get the remaining events.
        """
        log = self._logs.pop(attempt_id, None)
        if log is not None:
            log.end()
            self._ended[attempt_id] = log
            while len(self._ended) > MAX_ENDED_LOGS:
                self._ended.popitem(last=False)

    def has_events(self, attempt_id: str) -> bool:
        """Return whether an attempt's events are in memory. Otherwise, they are in the store."""
        return attempt_id in self._logs or attempt_id in self._ended

    async def follow(self, attempt_id: str, *, after: int = 0) -> AsyncGenerator[AttemptEvent, None]:
        """Yield an attempt's events after the given number, then new events until the attempt ends.

        Yield nothing if its events aren't in memory.
        """
        log = self._logs.get(attempt_id) or self._ended.get(attempt_id)
        while log is not None:
            changed, ended = log.signal.next, log.ended
            for event in log.after(after):
                yield event
                after = event.seq
            if ended:
                return
            await changed.wait()

    async def follow_all(
        self, owner: int | None = None, *, after: str | None = None
    ) -> AsyncGenerator[tuple[str, AttemptEvent], None]:
        """Yield the durable events of all attempts from now on, each with its position in this stream.

        Args:
            owner: the user whose attempts' events are yielded; None for all users.
            after: a position in an earlier stream; the events after this position are yielded first. A gap
                event replaces events that were lost because there were too many or because the daemon was
                restarted.
        """
        seen = self._published
        if after is not None:
            generation, _, number = after.partition(".")
            known = (
                generation == self._generation and number.isascii() and number.isdigit() and len(number) < 19
            )
            seen = min(int(number), self._published) if known else -1
        while not self._stopped:
            changed, newest = self._any.next, self._published
            fresh = [shown for shown in self._recent if shown.number > seen]
            oldest = fresh[0].number if fresh else newest + 1
            if seen + 1 < oldest:
                yield f"{self._generation}.{oldest - 1}", self._build_missed_events_gap()
            for shown in fresh:
                if owner in {None, shown.owner}:
                    yield f"{self._generation}.{shown.number}", shown.event
            seen = newest
            await changed.wait()

    def _build_missed_events_gap(self) -> AttemptEvent:
        """Return a gap event for lost events. The number of events that this follower missed is unknown."""
        return AttemptEvent(
            attempt_id="", run_number=0, seq=0, kind=GAP, at=self._clock.now(), body={"missed": None}
        )

    def end(self) -> None:
        """End the streams of all followers of all attempts."""
        self._stopped = True
        self._any.wake_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class _StreamEvent:
    """An event in the stream of all attempts, with its position in that stream."""

    number: int
    owner: int | None
    event: AttemptEvent


class _AttemptLog:
    """The log of one attempt: its durable events, and a ring buffer of its output."""

    def __init__(self) -> None:
        self.owner: int | None = None
        self.behind = 0
        self.next_seq = 1
        self.durable: list[AttemptEvent] = []
        self.ended = False
        self.signal = BroadcastEvent()
        self._output: deque[AttemptEvent] = deque()
        self._output_bytes = 0

    def add(self, event: AttemptEvent) -> None:
        """Store an event. If the buffer is full, drop the oldest output."""
        self.next_seq = event.seq + 1
        if event.kind in OUTPUT:
            self._output.append(event)
            self._output_bytes += _estimate_event_size(event)
            while self._output_bytes > MAX_RING_BYTES and len(self._output) > 1:
                self._output_bytes -= _estimate_event_size(self._output.popleft())
        else:
            self.durable.append(event)
        self.signal.wake_all()

    def end(self) -> None:
        """Mark the log as complete, and wake its followers."""
        self.ended = True
        self.signal.wake_all()

    def after(self, seq: int) -> Iterator[AttemptEvent]:
        """Return the events in memory after a given event, with a gap event for each missing range."""
        kept = merge(tuple(self.durable), tuple(self._output), key=lambda event: event.seq)
        return insert_gaps(kept, max(seq, self.behind))


def insert_gaps(events: Iterable[AttemptEvent], last_seq: int) -> Iterator[AttemptEvent]:
    """Yield the events after `last_seq`, with a gap event for each range of missing numbers."""
    for event in events:
        if event.seq > last_seq:
            missed = event.seq - last_seq - 1
            if missed > 0:
                yield _build_gap_event(event, missed)
            yield event
            last_seq = event.seq


def _build_gap_event(following: AttemptEvent, missed: int) -> AttemptEvent:
    return AttemptEvent(
        attempt_id=following.attempt_id,
        run_number=following.run_number,
        seq=following.seq - 1,
        kind=GAP,
        at=following.at,
        body={"missed": missed},
    )


def _estimate_event_size(event: AttemptEvent) -> int:
    return EVENT_OVERHEAD_BYTES + sum(len(value) for value in event.body.values() if isinstance(value, str))
