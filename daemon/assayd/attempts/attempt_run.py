"""One attempt while it runs: what was decided before it starts, how long its steps take, what it tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from assayd.aio import Deadline
from assayd.model.attempt import TRANSITIONS, Attempt, State
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Case, StageReport
from assayd.model.run import Limits, RunSpec, UnitResult
from assayd.model.submission import Submission
from assayd.ports.artifacts import Enclosing, nothing_enclosed
from assayd.ports.clock import Clock
from assayd.ports.validator import Validator
from assayd.sandbox.outcome import unit_outcome
from assayd.sandbox.session.conversation import Observer

Emit = Callable[[str, dict[str, object]], None]

WAITING_S = 24 * 3600.0
"""How long an attempt may wait for its turn, all told."""


@dataclass(slots=True, kw_only=True)
class Job:
    """One attempt with everything that was decided before it starts."""

    attempt: Attempt
    submission: Submission
    policy: ExecutionPolicy
    limits: Limits
    validator: Validator
    deadline: Deadline
    emit: Emit
    request_id: str | None = None
    enclosing: Enclosing = nothing_enclosed
    timings_s: dict[str, float] = field(default_factory=dict)

    def move(self, state: State) -> None:
        """Go to the next state and tell. Raises: ValueError for a move that is not in the table."""
        if state not in TRANSITIONS[self.attempt.state]:
            raise ValueError(f"an attempt does not go from {self.attempt.state} to {state}")
        self.attempt = replace(self.attempt, state=state)
        self.emit("state", {"state": state.value})

    def tell_stage(self, stage: StageReport) -> None:
        """Tell how a stage ended."""
        body: dict[str, object] = {
            "name": stage.name,
            "status": stage.status.value,
            "duration_ms": round(stage.duration_s * 1000, 3),
            "findings": len(stage.findings),
        }
        self.emit("stage", body)

    @contextmanager
    def measured(self, clock: Clock, step: str) -> Iterator[None]:
        """Add the time that the body takes to the step's timing."""
        began = clock.monotonic()
        try:
            yield
        finally:
            self.timings_s[step] = self.timings_s.get(step, 0.0) + clock.monotonic() - began


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What operators are told of a finished attempt beside its row: `told` for its line, the rest is counted.

    `stages` are those that ran, with their time in seconds.
    """

    told: Mapping[str, object] = field(default_factory=dict)
    stages: tuple[tuple[str, float], ...] = ()
    denied_imports: int = 0
    denied_connections: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """An attempt with its verdict, and its documents as the bundle has them: JSON, in bytes.

    Without a `report` they are those of the bundle that the attempt names. `static_misses` are the rules of
    what the runtime policy refused in code that passed the static stages. `cases` are what was run, for kinds
    that keep records of it.
    """

    attempt: Attempt
    report: bytes | None
    execution: bytes | None
    static_misses: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    facts: Facts = field(default_factory=Facts)


class Teller(Observer):
    """Turns what the runner tells into events."""

    def __init__(self, job: Job, spec: RunSpec) -> None:
        self._job = job
        self._units = spec.units

    def _unit(self, index: int, status: str, duration_s: float) -> None:
        body: dict[str, object] = {
            "name": self._units[index].name,
            "index": index + 1,
            "total": len(self._units),
            "status": status,
            "duration_ms": round(duration_s * 1000, 3),
        }
        self._job.emit("unit", body)

    def unit_started(self, index: int) -> None:
        """Tell that a unit was started."""
        self._unit(index, "started", 0.0)

    def unit_ended(self, index: int, result: UnitResult) -> None:
        """Tell how a unit ended."""
        self._unit(index, unit_outcome(result, self._units[index]).cause.value, result.usage.wall_s)

    def output(self, index: int, stream: str, data: bytes) -> None:
        """Pass on what a unit wrote."""
        self._job.emit(stream, {"unit": self._units[index].name, "text": data.decode("utf-8", "replace")})
