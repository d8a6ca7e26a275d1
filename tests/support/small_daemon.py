"""The daemon in this process: the real store, queue, intake, batches and service, without engine and workers.

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

from assayd.analysis.analyst import Checked
from assayd.attempts.admission import Intake, Origin, Stock
from assayd.attempts.events import EventHub
from assayd.attempts.lifecycle import Parts
from assayd.attempts.retention import Keep, Retention
from assayd.attempts.scheduler import QueueLimits, Scheduler
from assayd.attempts.service import DaemonService
from assayd.attempts.service import Parts as ServiceParts
from assayd.batches import BatchLimits, Belt, DaemonBatches, LineCaps, Sources
from assayd.documents import read_submission
from assayd.errors import EngineError
from assayd.fair_queue import FairSlots
from assayd.ids import Ulids
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt
from assayd.model.finding import Finding, Rule
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Judgement, StageReport, StageStatus
from assayd.model.run import Cause, ContainerFacts, Limits, Outcome, Program, RunEnd, RunResult, RunSpec, Unit
from assayd.model.submission import Peer, Submission
from assayd.package_data import share
from assayd.policies import load_policies
from assayd.ports.checkpoint import Checkpoint, unobserved
from assayd.ports.validator import FileOptions, Stage
from assayd.repairs.desk import Desk
from assayd.repairs.loop import Means
from assayd.repairs.providers.rules import RulesProvider
from assayd.repairs.repairs import DaemonRepairs, RepairLimits
from assayd.store.access import Access
from assayd.store.artifacts import FileArtifactStore
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import open_jobs
from assayd.store.repairs import DatabaseRepairStore
from support.empty_database import lay_database

START = datetime(2026, 5, 4, 10, 20, 30, tzinfo=UTC)
PEER = Peer(uid=1000, gid=1000, pid=1)
CAPS = Limits(timeout_s=0, unit_timeout_s=0, memory_bytes=0, max_processes=0)
POLICIES = load_policies([share("policies")])


def submission(code: str = "x = 1", **changes: object) -> dict[str, object]:
    return {"kind": "small", "payload": {"code": code}, **changes}


class Payload(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    code: str


class SmallValidator:
    kind = "small"
    payload = Payload
    default_policy = "extractor"
    image = "python"
    rules = (Rule(id="small.bad", title="Bad", help="Bad: bad."),)
    stages = (Stage(name="syntax", check=lambda *_: ()),)
    runtime_stages = ("sandbox",)
    samples = ()

    def from_files(self, files: Mapping[str, bytes], options: FileOptions) -> Mapping[str, object]:
        return {"code": b"".join(files.values()).decode()}

    def plan(self, payload: Payload, policy: ExecutionPolicy, limits: Limits) -> RunSpec | None:
        unit = Unit(name=payload.code, program=Program.PYTHON, arguments={}, deadline_s=1)
        return RunSpec(image="python", limits=limits, units=(unit,)) if "run" in payload.code else None

    def judge(self, payload: Payload, policy: ExecutionPolicy, result: RunResult) -> Judgement:
        return Judgement(stage_findings={"sandbox": ()})

    def retry_context(self, findings: Sequence[Finding], stage: str) -> str:
        return "worse " * 100_000 if "long" in stage else f"{stage} failed"


@dataclass
class Gate:
    """Lets through whatever comes, unless it is shut; `waiting` are those before it, in order."""

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
    """Checks in no time."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def check(self, validator: Any, payload: Payload, policy: ExecutionPolicy) -> Checked:
        await self._gate.pass_through(payload.code)
        bad = Finding(rule="small.bad", category="small", message="It is bad.", line=1, suggestion="Be good.")
        findings = (bad,) * payload.code.count("bad")
        status = StageStatus.FAILED if findings else StageStatus.PASSED
        stage = StageReport(name="syntax", status=status, findings=findings)
        return Checked(stages=(stage,), payload=payload)


class SmallSandbox:
    """Runs without a container."""

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
    async def lease(self, spec: RunSpec, owner: int = 0, lane: str = "") -> AsyncIterator[SimpleNamespace]:
        if self.trouble:
            raise self.trouble.pop()
        self.leases += 1
        ref = SimpleNamespace(ulid=f"01{self.leases:024d}")
        yield SimpleNamespace(warm=True, container=SimpleNamespace(ref=ref), spec=spec)

    async def run(self, lease: SimpleNamespace, deadline: Any, observer: object) -> RunResult:
        async with deadline.scope():
            await self._gate.pass_through(lease.spec.units[0].name)
        facts = ContainerFacts(image="python", image_digest=self.image_digest or "", warm=True)
        done = Outcome(cause=Cause.COMPLETED)
        return RunResult(units=(), end=RunEnd.FINISHED, outcome=done, container=facts)


class _nothing:  # noqa: N801 - in the place of a method
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


class SmallHouse:
    """Readiness that a test decides."""

    def __init__(self, sandbox: SmallSandbox) -> None:
        self.problem = ""
        self.sandbox = sandbox

    def ready(self) -> tuple[bool, str]:
        return not self.problem, self.problem

    def show(self, metrics: Metrics) -> None:
        pass

    async def examine(self) -> Sequence[object]:
        return ()


class Steps:
    """A clock that goes a millisecond on at each look."""

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
    """All parts, for tests that look inside."""

    service: DaemonService
    batches: DaemonBatches
    repairs: DaemonRepairs
    scheduler: Scheduler
    intake: Intake
    stock: Stock
    batch_store: DatabaseBatchStore
    hub: EventHub
    house: SmallHouse
    sandbox: SmallSandbox
    clock: Steps
    checks: Gate
    runs: Gate

    def read(self, code: str = "x = 1", **changes: object) -> Submission:
        """Return a submission as it is after the border."""
        return read_submission(json.dumps(submission(code, **changes)).encode(), self.stock.kinds)

    async def accept(self, code: str = "x = 1", **origin: Any) -> Attempt:
        """Accept a submission of user 1000, unless told otherwise."""
        accepted = await self.intake.submit(self.read(code), Origin(**{"peer": PEER, **origin}))
        return accepted.attempt

    async def finished(self, attempt: Attempt) -> Attempt:
        """Wait for an attempt's verdict."""
        return await self.service.wait(attempt.id, 10)


@dataclass(frozen=True)
class How:
    """What a test may set."""

    queue: QueueLimits = QueueLimits()
    batch: BatchLimits = BatchLimits(told_every_s=0.001)
    keep: Keep = Keep(days=30, attempts=10**6, disk_bytes=10**12)
    slots: int = 4
    patience_s: float = 60
    caps: Limits = CAPS
    min_free_bytes: int = 0
    checkpoint: Checkpoint = unobserved
    kinds: Callable[[], Mapping[str, Any]] = lambda: {"small": SmallValidator()}
    records: Callable[[Access], Mapping[str, object]] = lambda _: {}


@asynccontextmanager
async def small_daemon(folder: Path, how: How | None = None) -> AsyncIterator[SmallDaemon]:
    """Return a daemon on a state directory; ending it is as hard as a crash that leaves no task behind."""
    how = how or How()
    lay_database(folder)
    async with AsyncExitStack() as stack:
        clock, ids = Steps(), Ulids()
        jobs = await stack.enter_async_context(open_jobs(folder))
        artifacts = FileArtifactStore(folder / "artifacts")
        await artifacts.sweep()
        stock = Stock(
            jobs=jobs,
            records=how.records(jobs.access),
            artifacts=artifacts,
            policies=POLICIES,
            kinds=how.kinds(),
            clock=clock,
            ids=ids,
        )
        checks, runs = Gate(), Gate()
        checks.open.set()
        runs.open.set()
        sandbox = SmallSandbox(runs)
        house, hub, metrics = SmallHouse(sandbox), EventHub(clock), Metrics()
        parts = Parts(
            analyst=SmallAnalyst(checks),  # type: ignore[arg-type]
            sandbox=sandbox,  # type: ignore[arg-type]
            jobs=jobs,
            artifacts=artifacts,
            clock=clock,
            run_slots=FairSlots(how.slots),
            daemon_id="d",
            generation="g",
            patience_s=how.patience_s,
            checkpoint=how.checkpoint,
        )
        scheduler = Scheduler(parts=parts, hub=hub, metrics=metrics, limits=how.queue)
        await stack.enter_async_context(scheduler.running())
        stack.callback(scheduler.let_go)
        intake = Intake(stock, scheduler, ready=house.ready, caps=how.caps, min_free_bytes=how.min_free_bytes)
        batch_store = DatabaseBatchStore(jobs.access)
        service = DaemonService(
            ServiceParts(
                stock=stock,
                intake=intake,
                scheduler=scheduler,
                hub=hub,
                house=house,  # type: ignore[arg-type]
                rehearsal=SimpleNamespace(),  # type: ignore[arg-type]
                retention=Retention(jobs, batch_store, artifacts, clock, how.keep),
                metrics=metrics,
                caps=CAPS,
            )
        )
        sources = Sources(
            store=batch_store,
            jobs=jobs,
            intake=intake,
            kinds=stock.kinds,
            ids=ids,
            image_digest=service.image_digest,
        )
        belt = Belt(store=batch_store, intake=intake, scheduler=scheduler, clock=clock, retry_s=0.001)
        batches = DaemonBatches(sources, belt, how.batch, documents=service.read_documents)
        await stack.enter_async_context(batches.running())
        means = Means(
            attempts=Desk(intake=intake, scheduler=scheduler, jobs=jobs, documents=service.read_documents),
            repairs=DatabaseRepairStore(jobs.access),
            analyst=parts.analyst,
            kinds=stock.kinds,
            providers={"rules": RulesProvider()},
            clock=clock,
            ids=ids,
        )
        repairs = DaemonRepairs(means, RepairLimits(), metrics)
        intake.wishes = repairs
        await stack.enter_async_context(repairs.running())
        yield SmallDaemon(
            service=service,
            batches=batches,
            repairs=repairs,
            scheduler=scheduler,
            intake=intake,
            stock=stock,
            batch_store=batch_store,
            hub=hub,
            house=house,
            sandbox=sandbox,
            clock=clock,
            checks=checks,
            runs=runs,
        )


def with_lines(how: How | None = None, **caps: Any) -> How:
    """Return the same with other caps for lines."""
    how = how or How()
    return replace(how, batch=replace(how.batch, lines=replace(how.batch.lines, **caps)))


__all__ = ["LineCaps", "How", "SmallDaemon", "small_daemon", "submission", "with_lines"]
