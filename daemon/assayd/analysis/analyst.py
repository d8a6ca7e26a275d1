"""Runs each job in an idle analysis worker. Users, and the flows of each user, take turns.

One user never occupies all workers: if there are two or more, one is reserved for users without a worker.

If a worker exceeds a limit or a timeout, only its current job fails: the result is a finding that the
source can't be analysed, and a new worker is started. If a worker dies through a fault of the daemon, the
result is an internal error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import structlog
from pydantic import BaseModel, TypeAdapter, ValidationError

from assayd.analysis.messages import (
    ANSWER,
    BRIEFING_ADAPTER,
    DESCRIPTION_ADAPTER,
    EXHAUSTED,
    FAILED,
    PATCH_ADAPTER,
    PATCHED_ADAPTER,
    POLICY,
    TAKEN,
    FailedSubmission,
    GenerationBriefing,
    PatchRequest,
    PatchResult,
    RepairDescription,
    WorkerAnswer,
    remember_policy,
)
from assayd.analysis.processes import WorkerParents, WorkerProcess
from assayd.errors import AssaydError
from assayd.fair_queue import FairSemaphore
from assayd.guest import frames
from assayd.kind import Kind
from assayd.model.finding import Finding
from assayd.model.policy import ExecutionPolicy
from assayd.model.prompting import Document, ExtractedFields
from assayd.model.report import StageReport, StageStatus

log = structlog.get_logger()

T = TypeVar("T")

Flow = tuple[int, str]

DAEMON_FLOW: Flow = (-1, "")
"""The flow of the daemon's internal requests."""

UNANALYSABLE_RULE = "source.unanalysable"
MAX_ANSWER_BYTES = 20 * 2**20
"""Maximum bytes of a worker's answer: the largest body, and the findings in it."""
NO_TABLE_FILES: Mapping[str, Sequence[Path]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisLimits:
    """Limits of analysis: the number of workers, and the memory, CPU time and elapsed time of one job."""

    workers: int = 3
    memory_bytes: int = 1024 * 2**20
    cpu_s: float = 5.0
    wall_s: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSubmission:
    """The static stage reports of a submission, and its prepared payload."""

    stages: tuple[StageReport, ...]
    payload: BaseModel

    @property
    def failed(self) -> bool:
        """Return whether a static stage failed."""
        return any(stage.status is StageStatus.FAILED for stage in self.stages)


class WorkerDiedError(Exception):
    """Raised if a worker's job exceeds a limit or a timeout, which ends the worker."""


@dataclass(slots=True, eq=False)
class _Worker:
    process: WorkerProcess
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    policies: dict[str, None] = field(default_factory=dict)
    decoder: frames.FrameDecoder = field(default_factory=frames.FrameDecoder)

    async def frames(self) -> AsyncIterator[tuple[frames.Header, bytes]]:
        while data := await self._read():
            try:
                for frame in self.decoder.feed(data):
                    yield frame
            except frames.FrameError as problem:
                raise _build_broken_worker_error("an analysis worker sent a malformed frame") from problem
        status = await self.process.wait()
        if status is None or status < 0 or status == EXHAUSTED:
            raise WorkerDiedError(f"the worker ended with {status}")
        raise _build_broken_worker_error(
            f"an analysis worker ended with {status}; its reason is on the daemon's standard error"
        )

    async def _read(self) -> bytes:
        """Return the next bytes, or an empty result once the worker has exited, even if input is unread."""
        with suppress(ConnectionResetError):
            return await self.stdout.read(1 << 16)
        return b""


class Analyst:
    """A pool of worker processes that run static stages and parse untrusted text.

    Open it with `running()`.
    """

    def __init__(
        self,
        limits: AnalysisLimits,
        enabled: Sequence[str] = (),
        *,
        tables: Mapping[str, Sequence[Path]] = NO_TABLE_FILES,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_lost = on_lost
        self._limits = limits
        named = json.dumps({kind: [str(one.absolute()) for one in some] for kind, some in tables.items()})
        arguments = (str(limits.memory_bytes), str(limits.cpu_s), named, *enabled)
        self._parents = WorkerParents("assayd.analysis.worker", arguments)
        self._free: asyncio.Queue[_Worker | None] = asyncio.Queue()
        self._turns = FairSemaphore(limits.workers, reserve_from=2)
        self._numbers = count()
        self.alive: set[_Worker] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Analyst]:
        """Start the workers, and stop them after the body.

        Raises: AssaydError, if a worker can't be started.
        """
        async with self.opened():
            await self.start_workers()
            yield self

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Analyst]:
        """Run the parent process, which forks the workers, while the body runs.

        The parent process imports all kinds in the meantime. The body must call `start_workers` before the
        first request.

        Raises: AssaydError, if the parent process can't be started.
        """
        try:
            await self._parents.ensure()
            yield self
        finally:
            await asyncio.gather(*(self._end_worker(w) for w in list(self.alive)))
            await self._parents.close()

    async def start_workers(self) -> None:
        """Start all workers, and wait until they are ready.

        Raises: AssaydError, if a worker can't be started.
        """
        workers = await asyncio.gather(*(self._start() for _ in range(self._limits.workers)))
        for worker in workers:
            self._free.put_nowait(worker)

    async def check(
        self, validator: Kind, payload: BaseModel, policy: ExecutionPolicy, *, flow: Flow = DAEMON_FLOW
    ) -> CheckedSubmission:
        """Run a submission's static stages in a worker. Return their reports and the prepared payload.

        If the job exceeds a limit, the first stage fails, and the payload isn't prepared.

        `flow` (user, and batch or process) determines when the job gets a worker.

        Raises: AssaydError, if a worker can't be started.
        """
        try:
            answer = await self._run_in_turn(
                validator.name, flow, lambda worker: _request_check(worker, validator, payload, policy)
            )
        except WorkerDiedError:
            return CheckedSubmission(stages=build_unanalysable_reports(validator), payload=payload)
        return CheckedSubmission(
            stages=answer.stages, payload=_read_prepared_payload(validator, payload, answer)
        )

    async def stages(
        self, validator: Kind, payload: BaseModel, policy: ExecutionPolicy, *, flow: Flow = DAEMON_FLOW
    ) -> tuple[StageReport, ...]:
        """Return the static stage reports, without preparing a run.

        If the job exceeds a limit, the first stage fails. Raises: the same errors as `check`.
        """
        try:
            answer = await self._run_in_turn(
                validator.name,
                flow,
                lambda worker: _request_check(worker, validator, payload, policy, what="stages"),
            )
        except WorkerDiedError:
            return build_unanalysable_reports(validator)
        return answer.stages

    async def describe(
        self, validator: Kind, request: FailedSubmission, policy: ExecutionPolicy, *, flow: Flow = DAEMON_FLOW
    ) -> RepairDescription:
        """Return the request that asks a model to fix a failed submission.

        Raises: WorkerDiedError, if reading the submission exceeds a limit; AssaydError, if a worker can't be
        started.
        """
        body = FAILED.dump_json(request)

        async def ask(worker: _Worker) -> RepairDescription:
            _send_policy(worker, policy)
            return await _send_request(
                worker, "describe", validator.name, body, DESCRIPTION_ADAPTER, policy=policy.digest
            )

        return await self._run_in_turn(validator.name, flow, ask)

    async def patch(self, validator: Kind, request: PatchRequest, *, flow: Flow = DAEMON_FLOW) -> PatchResult:
        """Return a submission with a fix applied, or the reason why the fix can't be applied.

        Raises: the same errors as `describe`.
        """
        body = PATCH_ADAPTER.dump_json(request)
        return await self._run_in_turn(
            validator.name,
            flow,
            lambda worker: _send_request(worker, "patch", validator.name, body, PATCHED_ADAPTER),
        )

    async def taken(self, validator: Kind, payload: Document, *, flow: Flow = DAEMON_FLOW) -> ExtractedFields:
        """Return a submission's sample strings, and the fields that it extracts from them.

        Raises: the same errors as `describe`.
        """
        body = json.dumps(payload).encode()
        return await self._run_in_turn(
            validator.name, flow, lambda worker: _send_request(worker, "taken", validator.name, body, TAKEN)
        )

    async def prepare(self, validator: Kind, payload: BaseModel, *, flow: Flow = DAEMON_FLOW) -> BaseModel:
        """Return the prepared form of a payload that passed the static stages.

        Raises: the same errors as `describe`.
        """
        body = payload.model_dump_json().encode()
        answer = await self._run_in_turn(
            validator.name,
            flow,
            lambda worker: _send_request(worker, "prepare", validator.name, body, ANSWER),
        )
        return _read_prepared_payload(validator, payload, answer)

    async def brief(
        self, validator: Kind, context: Document, policy: ExecutionPolicy, *, flow: Flow = DAEMON_FLOW
    ) -> GenerationBriefing:
        """Return a kind's section of a generation prompt. Raises: the same errors as `describe`."""
        body = json.dumps(context).encode()

        async def ask(worker: _Worker) -> GenerationBriefing:
            _send_policy(worker, policy)
            return await _send_request(
                worker, "brief", validator.name, body, BRIEFING_ADAPTER, policy=policy.digest
            )

        return await self._run_in_turn(validator.name, flow, ask)

    async def read(self, reader: str, body: bytes, *, flow: Flow = DAEMON_FLOW) -> bytes:
        """Parse untrusted text with a function in a worker. The caller must validate the result.

        Args:
            reader: the function's name as ``package.module:name``. It accepts and returns bytes. The
                sender of the text must not be able to choose it.
            body: the text to parse.
            flow: the flow in whose turn the job runs.

        Raises: WorkerDiedError, if parsing the text exceeds a limit; AssaydError, if a worker can't be
        started.
        """
        return await self._run_in_turn(reader, flow, lambda worker: _exchange(worker, "read", reader, body))

    async def _run_in_turn(self, kind: str, flow: Flow, work: Callable[[_Worker], Awaitable[T]]) -> T:
        """Wait for the flow's turn, then run a job on a worker.

        Raises: WorkerDiedError, if the job exceeds a limit; AssaydError, if a worker can't be started.
        """
        async with self._turns.hold(*flow, str(next(self._numbers))):
            return await self._run_on_free_worker(kind, work)

    async def _run_on_free_worker(self, kind: str, work: Callable[[_Worker], Awaitable[T]]) -> T:
        """Run a job on a free worker, which is replaced if it is lost.

        Raises: WorkerDiedError, if the job exceeds a limit; AssaydError, if a worker can't be started.
        """
        worker = await self._free.get()
        try:
            if worker is not None and worker.process.returncode is not None:
                # It died while idle, so no source is to blame.
                dead, worker = worker, None
                await self._end_worker(dead)
            worker = worker or await self._start()
            async with asyncio.timeout(self._limits.wall_s):
                return await work(worker)
        except (WorkerDiedError, TimeoutError, BrokenPipeError, ConnectionResetError) as problem:
            self._on_lost()
            log.warning("analysis.worker_lost", kind=kind, problem=str(problem) or "timeout")
            lost, worker = worker, None
            await self._end_worker(lost)
            worker = await self._start_replacement()
            raise WorkerDiedError(str(problem) or "timeout") from problem
        except BaseException:
            # Half a conversation may be in its pipes; the next job must not get the answer to this one.
            lost, worker = worker, None
            await self._end_worker(lost)
            raise
        finally:
            self._free.put_nowait(worker)

    async def _start_replacement(self) -> _Worker | None:
        """Start a replacement for a lost worker. Return None if it can't be started.

        Only the job that lost the worker waits for this.
        """
        try:
            return await self._start()
        except AssaydError as problem:
            log.warning("analysis.worker_not_replaced", problem=str(problem))
            return None

    async def _start(self) -> _Worker:
        started = await self._parents.fork()
        reader, writer = await asyncio.open_unix_connection(sock=started.stream)
        worker = _Worker(started.process, writer, reader)
        self.alive.add(worker)
        try:
            await _wait_until_ready(worker)
        except BaseException as problem:
            if isinstance(problem, AssaydError):
                self._on_lost()
                log.warning("analysis.worker_lost", kind="", problem=str(problem))
            await self._end_worker(worker)
            raise
        return worker

    async def _end_worker(self, worker: _Worker | None) -> None:
        if worker is None or worker not in self.alive:
            return
        self.alive.discard(worker)
        with suppress(ProcessLookupError):
            worker.process.kill()
        await worker.process.wait()
        worker.stdin.close()


async def _request_check(
    worker: _Worker, validator: Kind, payload: BaseModel, policy: ExecutionPolicy, *, what: str = "check"
) -> WorkerAnswer:
    _send_policy(worker, policy)
    body = payload.model_dump_json().encode()
    return await _send_request(worker, what, validator.name, body, ANSWER, policy=policy.digest)


def _send_policy(worker: _Worker, policy: ExecutionPolicy) -> None:
    """Send a policy to a worker, unless the worker already has it."""
    if policy.digest not in worker.policies:
        header: frames.Header = {"type": "policy", "digest": policy.digest}
        worker.stdin.write(frames.encode_frame(header, POLICY.dump_json(policy)))
        remember_policy(worker.policies, policy.digest, None)


async def _send_request(
    worker: _Worker, what: str, kind: str, body: bytes, answer: TypeAdapter[T], *, policy: str | None = None
) -> T:
    try:
        return answer.validate_json(await _exchange(worker, what, kind, body, policy=policy))
    except ValidationError as problem:
        raise _build_broken_worker_error("an analysis worker's answer is malformed") from problem


async def _exchange(
    worker: _Worker, what: str, kind: str, body: bytes, *, policy: str | None = None
) -> bytes:
    """Send a job of type `what` to the worker, and return the unparsed response."""
    parts = list(frames.split_into_bodies(body))
    for part in parts[:-1]:
        worker.stdin.write(frames.encode_frame({"type": "part"}, part))
    last: frames.Header = {"type": what, "kind": kind, "policy": policy}
    worker.stdin.write(frames.encode_frame(last, parts[-1]))
    await worker.stdin.drain()
    return await _read_answer(worker)


async def _read_answer(worker: _Worker) -> bytes:
    answer = bytearray()
    async for header, part in worker.frames():
        answer += part
        if len(answer) > MAX_ANSWER_BYTES:
            raise WorkerDiedError("the worker's answer is too long")
        if header.get("last") is True:
            break
    return bytes(answer)


def _read_prepared_payload(validator: Kind, payload: BaseModel, answer: WorkerAnswer) -> BaseModel:
    if answer.prepared is None:
        return payload
    model = validator.prepared or validator.payload
    try:
        return model.model_validate({**dict(payload), **answer.prepared})
    except ValidationError as problem:
        raise _build_broken_worker_error("a prepared payload is invalid") from problem


def _build_broken_worker_error(message: str) -> AssaydError:
    return AssaydError("analysis.broken", message)


def build_unanalysable_reports(validator: Kind) -> tuple[StageReport, ...]:
    """Return the reports for a source whose analysis exceeded a limit.

    The first stage has failed; the others are skipped.
    """
    first, *rest = validator.stages
    finding = Finding(
        rule=UNANALYSABLE_RULE,
        category="syntax",
        message="The source can't be analysed: reading it exceeded the limit of time or memory.",
        suggestion="Submit smaller, less deeply nested source.",
    )
    failed = StageReport(name=first.name, status=StageStatus.FAILED, findings=(finding,))
    return (failed, *(StageReport(name=s.name, status=StageStatus.SKIPPED) for s in rest))


async def _wait_until_ready(worker: _Worker) -> None:
    """Wait for a worker's first frame.

    Raises: AssaydError, if the worker dies before it. No source is to blame for that.
    """
    try:
        async for header, _ in worker.frames():
            if header["type"] == "ready":
                return
    except WorkerDiedError as problem:
        message = f"an analysis worker died while it started: {problem}"
        raise AssaydError("analysis.unavailable", message) from problem
    raise AssaydError("analysis.unavailable", "the analysis worker didn't start")
