"""Events of an attempt: their ids, and the bodies for each kind of event."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from assayd.documents.base import BaseDocument, Timestamp, milliseconds
from assayd.errors import RequestError
from assayd.model.attempt import Attempt, State
from assayd.model.records import Event
from assayd.model.report import StageReport
from assayd.model.run import Unit

_EVENT_ID_DIGITS = 18


class EventDocument(BaseDocument):
    """One event of an attempt. The members of `body` depend on the event's kind.

    - state: state
    - stage: name, status, duration_ms, findings (their number)
    - unit: name, index (from 1), total, status (``started``, then its cause), duration_ms
    - stdout, stderr: unit, text
    - finished: verdict, cause
    - gap: missed (the number of lost events; null if unknown)
    """

    id: str = Field(description="Id of the event, for `Last-Event-ID`.")
    attempt_id: str = Field(description="The attempt.")
    run_number: int = Field(description="Number of the run.")
    seq: int = Field(description="Its place in that run, from 1.")
    kind: str = Field(description="Kind of the event.")
    at: Timestamp = Field(description="When.")
    body: dict[str, Any] = Field(description="Details; their keys depend on the kind.")


def event_document(event: Event, place: str | None = None) -> EventDocument:
    """Return the document of an event; in a stream of several attempts, `place` is its id."""
    return EventDocument.from_value(event, id=place or event_id(event))


def event_id(event: Event) -> str:
    """Return an event's id, which a stream sends and a client returns in `Last-Event-ID`."""
    return f"{event.run_number}.{event.seq}"


def read_event_id(text: str) -> tuple[int, int]:
    """Parse an event id into its run number and sequence number.

    Raises:
        RequestError: ``invalid``, if `event_id` can't have produced the text.
    """
    run, dot, seq = text.partition(".")
    if not (dot and all(n.isascii() and n.isdigit() and len(n) <= _EVENT_ID_DIGITS for n in (run, seq))):
        raise RequestError("invalid", "Last-Event-ID isn't an id of this stream", field="Last-Event-ID")
    return int(run), int(seq)


def state_body(state: State) -> dict[str, object]:
    """Return the event body for a change of state."""
    return {"state": state.value}


def stage_body(stage: StageReport) -> dict[str, object]:
    """Return the event body for the end of a stage."""
    return {
        "name": stage.name,
        "status": stage.status.value,
        "duration_ms": milliseconds(stage.duration_s),
        "findings": len(stage.findings),
    }


def unit_body(units: tuple[Unit, ...], index: int, status: str, duration_s: float = 0.0) -> dict[str, object]:
    """Return the event body for the start of a unit, or for its end with the cause."""
    return {
        "name": units[index].name,
        "index": index + 1,
        "total": len(units),
        "status": status,
        "duration_ms": milliseconds(duration_s),
    }


def output_body(unit: Unit, data: bytes) -> dict[str, object]:
    """Return the event body for a piece of output."""
    return {"unit": unit.name, "text": data.decode("utf-8", "replace")}


def finished_body(attempt: Attempt) -> dict[str, object]:
    """Return the event body for the verdict."""
    return {"verdict": attempt.verdict.value if attempt.verdict else None, "cause": attempt.cause}
