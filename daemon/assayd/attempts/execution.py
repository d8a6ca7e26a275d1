"""Defines where attempts run: in containers of this host, or in a location that a program provides.

The scheduler decides when each attempt runs; an `AttemptRunner` function decides how each attempt runs. `Job`
is a running attempt: the decisions made before its start, its timings, and its events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import NoReturn, Protocol

import structlog
from pydantic import BaseModel

from assayd.aio import Deadline
from assayd.attempts.samples import SelfTest
from assayd.clock import Clock
from assayd.documents.attempts import build_output_body, build_stage_body, build_state_body, build_unit_body
from assayd.errors import AssaydError
from assayd.kind import Kind
from assayd.log import build_trace_log_fields
from assayd.metrics import Metrics
from assayd.model.attempt import TRANSITIONS, Attempt, State
from assayd.model.health import HealthRow
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Case, StageReport
from assayd.model.run import Limits, RunSpec, UnitResult
from assayd.model.submission import Submission
from assayd.ports.driving import ALONE, WorkAssignment
from assayd.ports.tracing import NO_SPAN, Span
from assayd.sandbox.conversation import RunObserver

EmitEvent = Callable[[str, dict[str, object]], None]

WAITING_S = 24 * 3600.0
"""The seconds for which an attempt can wait for its turn, in total."""
MAX_TRACED_UNITS = 100
"""The maximum number of a run's units that have spans."""


class AttemptAbandonedError(Exception):
    """An exception raised if the daemon stops before the verdict. The daemon's next run recovers the attempt.

    `run_number` is the number of the interrupted run; None if no run was interrupted.
    """

    def __init__(self, run_number: int | None) -> None:
        super().__init__(run_number)
        self.run_number = run_number


@dataclass(slots=True, kw_only=True)
class Job:
    """An attempt with all decisions made before its start, and its submission once it is read.

    `prepared` is the checked payload. `abandoned` is set once the daemon stops without waiting for the
    attempt's verdict. `span` is the span of the attempt in its trace.
    """

    attempt: Attempt
    policy: ExecutionPolicy
    limits: Limits
    validator: Kind
    deadline: Deadline
    emit: EmitEvent
    request_id: str | None = None
    span: Span = NO_SPAN
    timings_s: dict[str, float] = field(default_factory=dict)
    read: Submission | None = None
    prepared: BaseModel | None = None
    abandoned: bool = False

    def cancel(self) -> None:
        """End the attempt with the verdict `cancelled`, at a user's request."""
        self.abandoned = False
        self.deadline.cancel()

    def abandon(self) -> None:
        """Interrupt the attempt without a verdict, unless it already has one or was cancelled."""
        if not self.deadline.cancelled:
            self.abandoned = True
            self.deadline.cancel()

    @property
    def submission(self) -> Submission:
        """Return the submission. Raises: ValueError, if the submission hasn't been read yet."""
        if self.read is None:
            raise ValueError(f"the submission of {self.attempt.id} isn't read yet")
        return self.read

    def change_state(self, state: State) -> None:
        """Change to the next state and publish it. Raises: ValueError, if the transition is forbidden."""
        if state not in TRANSITIONS[self.attempt.state]:
            raise ValueError(f"an attempt can't go from {self.attempt.state} to {state}")
        self.attempt = replace(self.attempt, state=state)
        self.emit("state", build_state_body(state))

    def publish_stage(self, stage: StageReport) -> None:
        """Publish the result of a stage."""
        self.emit("stage", build_stage_body(stage))

    @contextmanager
    def measure_step(self, clock: Clock, step: str, *, span: str | None = None) -> Iterator[Span]:
        """Add the body's duration to the step's timing. Yield a span, by default named after the step."""
        began = clock.monotonic()
        try:
            with self.trace_step(span or step) as begun:
                yield begun
        finally:
            self.timings_s[step] = self.timings_s.get(step, 0.0) + clock.monotonic() - began

    @contextmanager
    def trace_step(self, step: str) -> Iterator[Span]:
        """Trace a step as a span while the body runs, and add the span's ids to log lines."""
        span, error = self.span.begin_child(step), None
        ids = build_trace_log_fields(span.context)
        try:
            # Several times per attempt: without tracing, there is nothing to bind.
            with structlog.contextvars.bound_contextvars(**ids) if ids else nullcontext():
                yield span
        except BaseException as problem:
            error = get_loggable_error_name(problem)
            raise
        finally:
            span.end(error)


def get_loggable_error_name(problem: BaseException) -> str:
    """Return an AssaydError's code, or the class name of another error. Neither contains users' text."""
    return problem.code if isinstance(problem, AssaydError) else type(problem).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts for operators, in addition to the row. A value without a container or observation is None.

    `would_fail` is True if a report-only attempt would fail under enforcement; None for other attempts.
    `stages` contains the stages that ran, with their durations in seconds. `limit_shares` contains the used
    share of each limit; 1 means that the limit was used up.
    """

    stage_reached: str = ""
    errors: int = 0
    warnings: int = 0
    policy_digest: str | None = None
    would_fail: bool | None = None
    image_digest: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    stdout_bytes: int | None = None
    stderr_bytes: int | None = None
    container: str | None = None
    stages: tuple[tuple[str, float], ...] = ()
    limit_shares: tuple[tuple[str, float], ...] = ()
    denied_imports: int = 0
    denied_connections: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedAttempt:
    """An attempt with its verdict, together with its documents as JSON bytes, as stored in the bundle.

    If `report` is missing, the documents are in the attempt's bundle. `static_misses` contains the rules
    that refused code at run time although it had passed the static stages. Kinds that keep records use
    `cases` (the cases of the run) and `refusals` (the errors that prevented the run).
    """

    attempt: Attempt
    report: bytes | None
    execution: bytes | None
    static_misses: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    refusals: tuple[str, ...] = ()
    facts: Facts = field(default_factory=Facts)


class UnitPublisher(RunObserver):
    """A publisher of the runner's messages, both as events and as spans below `span`."""

    def __init__(self, job: Job, spec: RunSpec, span: Span = NO_SPAN) -> None:
        self._job = job
        self._units = spec.units
        self._span = span

    def on_unit_started(self, index: int) -> None:
        """Publish that a unit was started."""
        self._job.emit("unit", build_unit_body(self._units, index, "started"))

    def on_unit_ended(self, index: int, result: UnitResult) -> None:
        """Publish a unit's end with its cause and duration.

        Add a span to the trace, except after the first `MAX_TRACED_UNITS` units.
        """
        cause, took_s = result.outcome.cause.value, result.usage.wall_s
        self._job.emit("unit", build_unit_body(self._units, index, cause, took_s))
        if index < MAX_TRACED_UNITS:
            self._span.add_finished_child("unit", took_s, index=index, cause=cause, cpu_s=result.usage.cpu_s)

    def output(self, index: int, stream: str, data: bytes) -> None:
        """Publish a unit's output."""
        self._job.emit(stream, build_output_body(self._units[index], data))


class AttemptRunner(Protocol):
    """A function that runs one attempt whose submission has been read."""

    async def __call__(self, job: Job) -> FinishedAttempt:
        """Run the attempt, record its verdict, and return the attempt with the verdict.

        Raises: AttemptAbandonedError, if the program stops before the outcome is decided.
        """
        ...


class Readiness(Protocol):
    """The readiness to run attempts, and the reasons if they can't be run."""

    tried: asyncio.Event
    """Set once the first preparation has succeeded or failed."""

    def ready(self) -> tuple[bool, str]:
        """Return whether attempts can be run, and the reason if they can't."""
        ...

    async def prepare(self) -> None:
        """Prepare everything that runs need. This can take arbitrarily long."""
        ...

    async def keep_ready(self) -> NoReturn:
        """Restore readiness whenever it is lost."""
        ...

    async def sweep_periodically(self) -> None:
        """Remove leftovers periodically."""
        ...

    def image_problem(self, name: str) -> str:
        """Return why an image can't be used to run anything. The result is empty if no problem is known."""
        ...

    async def image_digest(self, name: str) -> str:
        """Return the digest of the image to which a name currently refers.

        Raises: EngineError, if the image doesn't exist or the engine fails.
        """
        ...

    def update_gauges(self, metrics: Metrics) -> None:
        """Set the gauges to the current values."""
        ...

    async def run_health_checks(self) -> Sequence[HealthRow]:
        """Run the health checks that need no container, and return a row for each."""
        ...

    async def check_isolation(self) -> HealthRow:
        """Test the isolation of the containers, and return the result as a row."""
        ...


class RemoteAttempts(Protocol):
    """Access to attempts that run in other processes."""

    async def publish_events(self, attempt: Attempt) -> None:
        """Publish the events of an unfinished attempt in this process too, from its first event."""
        ...

    async def ended(self, attempt_id: str, timeout_s: float) -> None:
        """Wait for the verdict of an attempt, for at most `timeout_s` seconds."""
        ...

    async def cancel(self, attempt_id: str) -> bool:
        """Cancel an attempt. Return False if it already has a verdict or if no attempt has this id."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The components that run attempts: an executor, its readiness and a self-test.

    `selftest` runs samples of kinds with this executor; None if each host tests itself. `elsewhere`
    provides access to the attempts of other processes; None if there is only one process. `driving` decides
    which process continues long-running work.
    """

    execute: AttemptRunner
    readiness: Readiness
    selftest: SelfTest | None
    elsewhere: RemoteAttempts | None = None
    driving: WorkAssignment = ALONE
