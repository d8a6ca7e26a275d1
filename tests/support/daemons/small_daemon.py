"""The daemon in this process: real store, queue, admission, batches and service, without engine and workers.

What code says decides what becomes of it: text with ``bad`` fails its static stage, text with ``run`` gets a
container that is none, anything else is validated as it is read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import BaseModel, ConfigDict

from assayd.analysis.analyst import CheckedSubmission
from assayd.attempts.acceptance import AcceptanceGate
from assayd.attempts.admission import Admission, AttemptOrigin
from assayd.attempts.events import EventHub
from assayd.attempts.retention import RetentionLimits
from assayd.attempts.scheduler import QueueLimits, Scheduler
from assayd.attempts.service import DaemonService
from assayd.batches import BatchLimits, DaemonBatches, LineCaps
from assayd.documents import read_submission
from assayd.errors import EngineError
from assayd.kind import Kind, Stage
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt
from assayd.model.finding import Finding, Rule
from assayd.model.health import HealthRow, HealthStatus
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Judgement, StageReport, StageStatus
from assayd.model.run import (
    Cause,
    ContainerFacts,
    Limits,
    Program,
    RunEndReason,
    RunOutcome,
    RunResult,
    RunSpec,
    Unit,
)
from assayd.model.submission import Peer, Submission
from assayd.policies import PolicySet
from assayd.ports.artifacts import ArtifactStore
from assayd.settings import Settings
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore
from assayd.store.library import DatabaseLibrary
from assayd.wiring import PartOverrides, build_daemon
from assayd.wiring.limits import derive_limits
from assayd_chains.chains import Chains
from support.stores.empty_database import lay_database

START = datetime(2026, 5, 4, 10, 20, 30, tzinfo=UTC)
PEER = Peer(uid=1000, gid=1000, pid=1)
CAPS = Limits(timeout_s=0, unit_timeout_s=0, memory_bytes=0, max_processes=0)
SHOWN = (
    "service",
    "batches",
    "chains",
    "library",
    "scheduler",
    "acceptance",
    "admission",
    "jobs",
    "artifacts",
    "policies",
    "kinds",
    "batch_store",
    "hub",
)
"""The parts that tests look into."""


def submission(code: str = "x = 1", **changes: object) -> dict[str, object]:
    return {"kind": "small", "payload": {"code": code}, **changes}


class Payload(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    code: str


class SmallKind(Kind[Payload]):
    name = "small"
    payload = Payload
    default_policy = "extractor"
    image = "python"
    rules = (Rule(id="small.bad", title="Bad", help="Bad: bad."),)
    stages = (Stage(name="syntax", check=lambda *_: ()),)
    runtime_stages = ("sandbox",)
    samples = ()

    def plan(self, payload: Payload, policy: ExecutionPolicy, limits: Limits) -> RunSpec | None:
        unit = Unit(name=payload.code, program=Program.PYTHON, arguments={}, deadline_s=1)
        return RunSpec(image="python", limits=limits, units=(unit,)) if "run" in payload.code else None

    def judge(self, payload: Payload, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        return Judgement(stage_findings={"sandbox": ()})

    def retry_context(
        self, findings: Sequence[Finding], stage: str, policy: ExecutionPolicy | None = None
    ) -> str:
        return "worse " * 100_000 if "long" in stage else f"{stage} failed"


@dataclass
class Gate:
    """Lets every attempt through unless it is closed; `waiting` are the attempts in front of it, in order."""

    open: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    broken: Exception | None = None

    async def pass_through(self, what: str) -> None:
        self.waiting.append(what)
        try:
            await self.open.wait()
        finally:
            self.waiting.remove(what)
        self.passed.append(what)
        if self.broken is not None:
            raise self.broken


class SmallAnalyst:
    """An analyst that checks immediately."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        yield

    async def start_workers(self) -> None:
        return

    async def check(
        self, validator: Any, payload: Payload, policy: ExecutionPolicy, *, flow: tuple[int, str]
    ) -> CheckedSubmission:
        await self._gate.pass_through(payload.code)
        bad = Finding(rule="small.bad", category="small", message="It is bad.", line=1, suggestion="Be good.")
        findings = (bad,) * payload.code.count("bad")
        status = StageStatus.FAILED if findings else StageStatus.PASSED
        stage = StageReport(name="syntax", status=status, findings=findings)
        return CheckedSubmission(stages=(stage,), payload=payload)

    async def prepare(self, validator: Any, payload: Payload, *, flow: tuple[int, str]) -> Payload:
        return payload


class SmallSandbox:
    """A sandbox without containers."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.leases = 0
        self.pool = SimpleNamespace(attempt=_nothing)
        self.images = SimpleNamespace(get=self._image)
        self.image_digest: str | None = "sha256:image"
        self.usable = asyncio.Event()
        self.usable.set()
        self.trouble: list[EngineError] = []

    async def _image(self, name: str) -> SimpleNamespace:
        if self.image_digest is None:
            raise EngineError("engine.unreachable", "no engine", retryable=True)
        return SimpleNamespace(digest=self.image_digest)

    @asynccontextmanager
    async def lease(self, spec: RunSpec, user: int = 0, flow: str = "") -> AsyncIterator[SimpleNamespace]:
        if self.trouble:
            raise self.trouble.pop()
        self.leases += 1
        ref = SimpleNamespace(ulid=f"01{self.leases:024d}")
        yield SimpleNamespace(warm=True, container=SimpleNamespace(ref=ref), spec=spec)

    async def run(self, lease: SimpleNamespace, deadline: Any, observer: object) -> RunResult:
        end, cause = RunEndReason.FINISHED, Cause.COMPLETED
        try:
            async with deadline.scope():
                await self._gate.pass_through(lease.spec.units[0].name)
        except TimeoutError:
            end, cause = RunEndReason.CANCELLED, Cause.CANCELLED
        facts = ContainerFacts(image="python", image_digest=self.image_digest or "", warm=True)
        return RunResult(units=(), end=end, outcome=RunOutcome(cause=cause), container=facts)


class _nothing:  # noqa: N801 - in the place of a method
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


class SmallReadiness:
    """A readiness that the test sets."""

    def __init__(self, sandbox: SmallSandbox) -> None:
        self.problem = ""
        self.missing_image = ""
        self.sandbox = sandbox

    def ready(self) -> tuple[bool, str]:
        return not self.problem, self.problem

    def update_gauges(self, metrics: Metrics) -> None:
        pass

    def image_problem(self, name: str) -> str:
        return f"image {name} doesn't exist" if name == self.missing_image else ""

    async def image_digest(self, name: str) -> str:
        return str((await self.sandbox.images.get(name)).digest)

    async def run_health_checks(self) -> Sequence[object]:
        return ()

    async def check_isolation(self) -> HealthRow:
        return HealthRow(check="isolation", status=HealthStatus.OK, detail="every probe was held")


class Steps:
    """A clock that advances by a millisecond at each reading."""

    def __init__(self) -> None:
        self.looks = 0
        self.days = 0

    def now(self) -> datetime:
        self.looks += 1
        return START + timedelta(days=self.days, milliseconds=self.looks)

    def monotonic(self) -> float:
        self.looks += 1
        return self.looks / 1000


@dataclass
class SmallDaemon:
    """All parts, for tests of the inside."""

    service: DaemonService
    batches: DaemonBatches
    chains: Chains
    library: DatabaseLibrary
    scheduler: Scheduler
    acceptance: AcceptanceGate
    admission: Admission
    jobs: DatabaseJobStore
    artifacts: ArtifactStore
    policies: PolicySet
    kinds: Mapping[str, Kind]
    batch_store: DatabaseBatchStore
    hub: EventHub
    readiness: SmallReadiness
    sandbox: SmallSandbox
    clock: Steps
    checks: Gate
    runs: Gate

    def read(self, code: str = "x = 1", **changes: object) -> Submission:
        """Return a submission as the API parses it."""
        return read_submission(json.dumps(submission(code, **changes)).encode(), self.kinds)

    async def accept(self, code: str = "x = 1", **origin: Any) -> Attempt:
        """Accept a submission, by default of user 1000."""
        accepted = await self.admission.submit(self.read(code), AttemptOrigin(**{"peer": PEER, **origin}))
        return accepted.attempt

    async def finished(self, attempt: Attempt) -> Attempt:
        """Wait for an attempt's verdict and return the attempt."""
        return await self.service.wait(attempt.id, 10)


@dataclass(frozen=True)
class How:
    """The options of a small daemon."""

    queue: QueueLimits = QueueLimits()
    batch: BatchLimits = BatchLimits(min_progress_interval_s=0.001, retry_s=0.001)
    keep: RetentionLimits = RetentionLimits(days=30, attempts=10**6, disk_bytes=10**12)
    slots: int = 4
    retry_window_s: float = 60
    caps: Limits = CAPS
    min_free_bytes: int = 0
    kinds: Callable[[], Mapping[str, Any]] = lambda: {"small": SmallKind()}
    settings: Mapping[str, Any] = field(default_factory=dict)


@asynccontextmanager
async def small_daemon(folder: Path, how: How | None = None) -> AsyncIterator[SmallDaemon]:
    """Return a daemon on a state directory; it ends as hard as a crash, but leaves no task behind."""
    how = how or How()
    lay_database(folder)
    settings = Settings(
        state_dir=folder,
        concurrency=how.slots,
        engine={"patience_s": how.retry_window_s},
        **{"policy_folders": (), **how.settings},
    )
    clock, checks, runs = Steps(), Gate(), Gate()
    checks.open.set()
    runs.open.set()
    sandbox = SmallSandbox(runs)
    readiness = SmallReadiness(sandbox)
    limits = replace(
        derive_limits(settings),
        queue=how.queue,
        batch=how.batch,
        keep=replace(how.keep, min_free_bytes=how.min_free_bytes),
        attempt=how.caps,
    )
    overrides = PartOverrides(
        limits=limits, clock=clock, kinds=how.kinds(), analyst=SmallAnalyst(checks), readiness=readiness
    )
    async with AsyncExitStack() as stack:
        parts = await build_daemon(settings, stack, overrides)
        stack.callback(parts.scheduler.release_waiters)
        yield SmallDaemon(
            **{name: getattr(parts if hasattr(parts, name) else parts.basics, name) for name in SHOWN},
            readiness=readiness,
            sandbox=sandbox,
            clock=clock,
            checks=checks,
            runs=runs,
        )


def with_lines(how: How | None = None, **caps: Any) -> How:
    """Return the options with other limits for batch lines."""
    how = how or How()
    return replace(how, batch=replace(how.batch, lines=replace(how.batch.lines, **caps)))


__all__ = ["LineCaps", "How", "SmallDaemon", "small_daemon", "submission", "with_lines"]
