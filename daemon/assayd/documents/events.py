"""Events of an attempt, and their ids."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from assayd.documents.base import BaseDocument, Timestamp
from assayd.errors import RequestError
from assayd.model.records import Event

_EVENT_ID_DIGITS = 18


class EventDocument(BaseDocument):
    """One event of an attempt. What its `body` holds depends on its kind.

    - state: state
    - stage: name, status, duration_ms, findings (how many)
    - unit: name, index (from 1), total, status (``started``, then its cause), duration_ms
    - stdout, stderr: unit, text
    - finished: verdict, cause
    - gap: missed (how many events are gone; null where that is not known)
    """

    id: str = Field(description="What `Last-Event-ID` sends back.")
    attempt_id: str = Field(description="The attempt.")
    run_number: int = Field(description="Number of the run.")
    seq: int = Field(description="Its place in that run, from 1.")
    kind: str = Field(description="Kind of the event.")
    at: Timestamp = Field(description="When.")
    body: dict[str, Any] = Field(description="More of it, by its kind.")


def event_document(event: Event, place: str | None = None) -> EventDocument:
    """Return the document of an event; its id is `place` in a stream of many attempts."""
    return EventDocument.from_value(event, id=place or event_id(event))


def event_id(event: Event) -> str:
    """Return the id that a stream shows and `Last-Event-ID` sends back."""
    return f"{event.run_number}.{event.seq}"


def read_event_id(text: str) -> tuple[int, int]:
    """Return the run number and the sequence number of an event's id.

    Raises:
        RequestError: ``invalid``, when it was not made by `event_id`.
    """
    run, dot, seq = text.partition(".")
    if not (dot and all(n.isascii() and n.isdigit() and len(n) <= _EVENT_ID_DIGITS for n in (run, seq))):
        raise RequestError("invalid", "Last-Event-ID is not an id of this stream", field="Last-Event-ID")
    return int(run), int(seq)
