"""Write the bodies of events as the contract names them."""

from __future__ import annotations

from assayd.documents.base import milliseconds
from assayd.model.attempt import Attempt, State
from assayd.model.report import StageReport
from assayd.model.run import Unit


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
