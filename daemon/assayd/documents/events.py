"""Events of an attempt: their ids, and their bodies by kind."""

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
    """One event of an attempt. What its `body` holds depends on its kind.

    - state: state
    - stage: name, status, duration_ms, findings (how many)
    - unit: name, index (from 1), total, status (``started``, then its cause), duration_ms
    - stdout, stderr: unit, text
    - finished: verdict, cause
    - gap: missed (how many events are gone; null where that is not known)
    """

    id: str = Field(description="Id of the event, for `Last-Event-ID`.")
    attempt_id: str = Field(description="The attempt.")
    run_number: int = Field(description="Number of the run.")
    seq: int = Field(description="Its place in that run, from 1.")
    kind: str = Field(description="Kind of the event.")
    at: Timestamp = Field(description="When.")
    body: dict[str, Any] = Field(description="Details; their keys depend on the kind.")


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
        raise RequestError("invalid", "Last-Event-ID isn't an id of this stream", field="Last-Event-ID")
    return int(run), int(seq)


def state_body(state: State) -> dict[str, object]:
    """Write that an attempt is in another state."""
    return {"state": state.value}


def stage_body(stage: StageReport) -> dict[str, object]:
    """Write how a stage ended."""
    return {
        "name": stage.name,
        "status": stage.status.value,
        "duration_ms": milliseconds(stage.duration_s),
        "findings": len(stage.findings),
    }


def unit_body(units: tuple[Unit, ...], index: int, status: str, duration_s: float = 0.0) -> dict[str, object]:
    """Write that a unit was started, or the cause that it ended with."""
    return {
        "name": units[index].name,
        "index": index + 1,
        "total": len(units),
        "status": status,
        "duration_ms": milliseconds(duration_s),
    }


def output_body(unit: Unit, data: bytes) -> dict[str, object]:
    """Write what a unit wrote."""
    return {"unit": unit.name, "text": data.decode("utf-8", "replace")}


def finished_body(attempt: Attempt) -> dict[str, object]:
    """Write that an attempt has its verdict."""
    return {"verdict": attempt.verdict.value if attempt.verdict else None, "cause": attempt.cause}
