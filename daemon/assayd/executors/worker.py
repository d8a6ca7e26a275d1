"""An executor: runs checked attempts in its containers, until the daemon stops it or ends.

It asks the daemon for everything in the database: to record a run before any submitted code is sent to its
container, to test an image, and for the files of a chain. `wiring.execution` builds its parts.

`Link` carries messages in both directions: pickled values with their length, over a socket pair. Only these
processes have the socket. They run the same code as the same user, so an executor that has been taken over
could harm the daemon without pickle, too (docs/decisions/0185).
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import cast

import structlog

from assayd.aio import Deadline, open_task_group
from assayd.analysis.analyst import CheckedSubmission
from assayd.attempts.execution import WAITING_S, AttemptAbandonedError, Job
from assayd.attempts.lifecycle import LocalExecution
from assayd.errors import AssaydError, EngineError, StoreError
from assayd.kind import Kind
from assayd.metrics import Metrics, Samples
from assayd.model.attempt import Attempt
from assayd.model.health import HealthRow
from assayd.model.policy import ExecutionPolicy
from assayd.model.records import AttemptRun
from assayd.model.report import Verdict
from assayd.model.run import Limits, RunSpec
from assayd.model.submission import Submission
from assayd.model.trace_context import TraceContext
from assayd.ports.tracing import NO_SPAN, Attribute, Span
from assayd.sandbox.readiness import ReadinessSupervisor
from assayd.store.unsynced import serialize_files

log = structlog.get_logger()

EVENT_BATCH_DELAY_S = 0.1
"""The seconds for which events are collected before they are sent to the daemon."""
STATUS_INTERVAL_S = 1.0
"""The seconds between two messages about the status."""
STARTUP_STATUS_INTERVAL_S = 0.05
"""The seconds between two messages about the status until the executor is ready for the first time."""

Problem = tuple[str, str, bool]
"""The code and the message of an AssaydError, and whether it is retryable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorStatus:
    """The status of an executor.

    `problem` is the reason why it can't run attempts; empty if it can. `tried` is false until its sandbox is
    ready or has failed for the first time.
    """

    problem: str
    tried: bool
    containers: HealthRow
    samples: Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedRun:
    """An attempt that is sent to an executor; `rules` is the number of its policy and limits."""

    attempt: Attempt
    rules: int
    submission: Submission
    checked: CheckedSubmission
    request_id: str | None
    trace: TraceContext | None


@dataclass(slots=True, kw_only=True)
class RecordedSpan:
    """A span that is recorded for the daemon, which exports it. It implements `ports.tracing.Span`.

    Times are those of the monotonic clock, which all processes of a host share.
    """

    name: str = ""
    context: TraceContext | None = None
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    error: str | None = None
    children: list[RecordedSpan] = field(default_factory=list)

    def begin_child(self, name: str, ago_s: float = 0.0, /, **attributes: Attribute) -> Span:
        """Begin a child span of this span."""
        began = time.monotonic() - ago_s
        child = RecordedSpan(name=name, context=self.context, attributes=attributes, began=began)
        self.children.append(child)
        return child

    def add_finished_child(
        self, name: str, took_s: float | None = None, *, ended_ago_s: float = 0.0, **attributes: Attribute
    ) -> None:
        """Add a finished child span."""
        ended = time.monotonic() - ended_ago_s
        began = self.began if took_s is None else max(self.began, ended - took_s)
        self.children.append(
            RecordedSpan(name=name, attributes=attributes, began=began, ended=max(began, ended))
        )

    def end(self, error: str | None = None, ago_s: float = 0.0, /, **attributes: Attribute) -> None:
        """End the span."""
        self.ended, self.error = time.monotonic() - ago_s, error
        self.attributes = {**self.attributes, **attributes}

    def replay(self, parent: Span, now: float | None = None) -> None:
        """Add the ended children, with theirs, to a span of the daemon. Omit children that haven't ended."""
        now = time.monotonic() if now is None else now
        for child in self.children:
            if child.ended is not None:
                span = parent.begin_child(child.name, now - child.began, **child.attributes)
                child.replay(span, now)
                span.end(child.error, now - child.ended)


class BundleContents(dict[str, bytes]):
    """The contents of written bundles, which the daemon stores together with the verdict."""

    def keep(self, location: str, files: Mapping[str, bytes]) -> None:
        """Keep the contents until the bundle's attempt is sent to the daemon."""
        self[location] = serialize_files(files)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorParts:
    """The parts of an executor."""

    local: LocalExecution
    readiness: ReadinessSupervisor
    kinds: Mapping[str, Kind]
    metrics: Metrics


BuildParts = Callable[["ExecutorWorker", object, AsyncExitStack], Awaitable[ExecutorParts]]
"""Builds an executor's parts from the daemon's first message; running parts are entered into the stack."""


class ExecutorWorker:
    """An executor process: its connection to the daemon, and its active attempts."""

    def __init__(self, build: BuildParts) -> None:
        self._build = build
        self._started: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._link = Link(
            {
                "start": self._started.set_result,
                "rules": self._on_rules,
                "run": self._on_run,
                "cancel": self._on_cancel,
                "answer": self._on_answer,
                "images": self._on_images,
                "check": lambda: self._spawn(self._check_isolation()),
                "stop": self._on_stop,
            },
            self._on_lost,
        )
        self._over = asyncio.Event()
        self._parts: ExecutorParts
        self._active: dict[str, Job] = {}
        self._checked: dict[str, CheckedSubmission] = {}
        self._events: dict[str, list[tuple[str, dict[str, object]]]] = {}
        self._questions: dict[int, asyncio.Future[object]] = {}
        self._numbers = count()
        self._rules: dict[int, tuple[ExecutionPolicy, Limits]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.contents = BundleContents()
        self.images: Mapping[str, Sequence[str]] = {}
        """The images that profiles name, each with those profiles."""

    async def serve(self, stream: socket.socket) -> None:
        """Serve the daemon until it stops this executor; then empty the pool."""
        await self._link.open(stream)
        start = await self._started
        async with AsyncExitStack() as stack:
            self._parts = await self._build(self, start, stack)
            async with open_task_group() as tasks:
                background = (
                    self._stay_ready(),
                    self._parts.readiness.sweep_periodically(),
                    self._send_status(),
                )
                working = [tasks.create_task(work) for work in background]
                await self._over.wait()
                for task in working:
                    task.cancel()
            for job in self._active.values():
                job.abandon()
            if self._tasks:
                await asyncio.wait(self._tasks)
        self._link.close()

    def _on_stop(self) -> None:
        self._over.set()

    def _on_lost(self) -> None:
        """End the process immediately, since the daemon has ended.

        The daemon's next start removes the containers and recovers the attempts.
        """
        if not self._over.is_set():
            os._exit(1)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stay_ready(self) -> None:
        await self._parts.readiness.prepare()
        gc.collect()
        gc.freeze()
        await self._parts.readiness.keep_ready()

    async def _send_status(self) -> None:
        """Send the status whenever it has changed, and otherwise a keep-alive message."""
        readiness, metrics, sent = self._parts.readiness, self._parts.metrics, None
        while True:
            readiness.update_gauges(metrics)
            status = ExecutorStatus(
                problem=readiness.ready()[1],
                tried=readiness.tried.is_set(),
                containers=readiness.examine_pool(),
                samples=metrics.collect_for_daemon(),
            )
            if status != sent:
                self._link.send("status", status)
                sent = status
            else:
                self._link.send("alive")
            await asyncio.sleep(STATUS_INTERVAL_S if status.tried else STARTUP_STATUS_INTERVAL_S)

    async def _check_isolation(self) -> None:
        self._link.send("isolation", await self._parts.readiness.check_isolation())

    def _on_images(self, images: Mapping[str, Sequence[str]]) -> None:
        self.images = images

    def _on_rules(self, number: int, policy: ExecutionPolicy, limits: Limits, forget: int | None) -> None:
        self._rules[number] = policy, limits
        if forget is not None:
            del self._rules[forget]

    def _on_cancel(self, attempt_id: str, abandoned: bool) -> None:
        if (job := self._active.get(attempt_id)) is not None:
            (job.abandon if abandoned else job.cancel)()

    def _on_run(self, run: AssignedRun) -> None:
        attempt_id = run.attempt.id
        policy, limits = self._rules[run.rules]
        events = self._events[attempt_id] = []
        self._checked[attempt_id] = run.checked
        loop = asyncio.get_running_loop()

        def emit(kind: str, body: dict[str, object]) -> None:
            if not events:
                loop.call_later(EVENT_BATCH_DELAY_S, self._flush_events, attempt_id)
            events.append((kind, body))

        self._active[attempt_id] = job = Job(
            attempt=run.attempt,
            policy=policy,
            limits=limits,
            validator=self._parts.kinds[run.attempt.kind],
            deadline=Deadline(WAITING_S),
            emit=emit,
            request_id=run.request_id,
            span=NO_SPAN if run.trace is None else RecordedSpan(context=run.trace),
            read=run.submission,
        )
        self._spawn(self._run_job(job))

    async def _run_job(self, job: Job) -> None:
        attempt_id = job.attempt.id
        with structlog.contextvars.bound_contextvars(
            request_id=job.request_id,
            attempt_id=attempt_id,
            kind=job.attempt.kind,
            policy=job.attempt.policy,
        ):
            try:
                with self._parts.local.sandbox.pool.attempt():
                    finished = await self._parts.local.run(job)
                contents = self.contents.pop(finished.attempt.bundle or "", None)
                spans = job.span if isinstance(job.span, RecordedSpan) else None
                events = self._take_events(attempt_id)
                self._link.send("done", attempt_id, events, finished, job.timings_s, contents, spans)
            except AttemptAbandonedError as left:
                self._link.send("abandoned", attempt_id, left.run_number)
            except Exception:
                log.exception("attempt.broken")
                self._link.send("broken", attempt_id)
            finally:
                del self._active[attempt_id], self._events[attempt_id], self._checked[attempt_id]

    def _flush_events(self, attempt_id: str) -> None:
        if self._events.get(attempt_id):
            self._link.send("events", attempt_id, self._take_events(attempt_id))

    def _take_events(self, attempt_id: str) -> list[tuple[str, dict[str, object]]]:
        taken = self._events[attempt_id][:]
        self._events[attempt_id].clear()
        return taken

    async def _ask(self, question: str, attempt_id: str, *values: object) -> object:
        """Ask the daemon about an attempt, and return its answer.

        Raises: StoreError or EngineError, if the daemon does.
        """
        number = next(self._numbers)
        asked = self._questions[number] = asyncio.get_running_loop().create_future()
        self._link.send("ask", number, question, attempt_id, self._take_events(attempt_id), *values)
        try:
            return await asked
        finally:
            self._questions.pop(number, None)

    def _on_answer(self, number: int, answer: object, problem: Problem | None, engine: bool) -> None:
        asked = self._questions.pop(number, None)
        if asked is None or asked.done():
            return
        if problem is None:
            asked.set_result(answer)
        else:
            code, message, retryable = problem
            error = EngineError if engine else StoreError
            asked.set_exception(error(code, message, retryable=retryable))

    async def get_checked(self, job: Job) -> CheckedSubmission:
        """Return the checked submission that the daemon has sent."""
        return self._checked[job.attempt.id]

    async def lease(self, run: AttemptRun) -> None:
        """Let the daemon record a run. Raises: StoreError, if the daemon can't record it."""
        await self._ask("lease", run.attempt_id, run, self._active[run.attempt_id].attempt.warm)

    async def require_image(self, job: Job, spec: RunSpec) -> None:
        """Let the daemon test the image that a policy names, if it names one.

        Raises: EngineError or StoreError, as the daemon does.
        """
        await self._ask("image", job.attempt.id, spec)

    async def get_attachments(self, attempt: Attempt, verdict: Verdict) -> Mapping[str, bytes]:
        """Return the additional files of an attempt that belongs to a chain.

        The result is empty for other attempts.

        Raises: StoreError, if the daemon can't read them.
        """
        if attempt.parent_id is None and attempt.intent is None:
            return {}  # Only fixes and generated code belong to a chain.
        found = await self._ask("attachments", attempt.id, attempt, verdict)
        return found if isinstance(found, dict) else {}


def describe_problem(problem: AssaydError) -> Problem:
    """Return an error's code, message and retryability, from which an executor can restore the error."""
    return problem.code, problem.message, problem.retryable


_LENGTH_STRUCT = struct.Struct(">I")

Handlers = Mapping[str, Callable[..., None]]
"""The function that handles each kind of message; its arguments are the message's values."""


class Link(asyncio.Protocol):
    """One end of a connection between the daemon and an executor."""

    def __init__(self, handlers: Handlers, lost: Callable[[], None]) -> None:
        self._handlers = handlers
        self._lost = lost
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self.received = 0
        """The number of received messages."""

    async def open(self, stream: socket.socket) -> None:
        """Start to receive messages from a connected, non-blocking socket."""
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=stream)

    def send(self, kind: str, *values: object) -> None:
        """Send a message. After the end of the connection, do nothing."""
        if self._transport is not None and not self._transport.is_closing():
            data = pickle.dumps((kind, *values), pickle.HIGHEST_PROTOCOL)
            self._transport.write(_LENGTH_STRUCT.pack(len(data)) + data)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the connection."""
        self._lost()

    def data_received(self, data: bytes) -> None:
        """Handle all complete messages."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _LENGTH_STRUCT.size:
            end = _LENGTH_STRUCT.size + _LENGTH_STRUCT.unpack_from(buffer)[0]
            if len(buffer) < end:
                return
            kind, *values = pickle.loads(bytes(memoryview(buffer)[_LENGTH_STRUCT.size : end]))  # noqa: S301
            del buffer[:end]
            self.received += 1
            self._handlers[kind](*values)
