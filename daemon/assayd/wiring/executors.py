"""Builds both sides of executors: the daemon's, and an executor's parts in its own process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import structlog

from assayd.analysis.processes import WorkerParents
from assayd.attempts.conclusion import ConclusionWriter
from assayd.attempts.images import ImageHints
from assayd.attempts.lifecycle import LocalExecution
from assayd.errors import AssaydError
from assayd.executors.front import DaemonParts, ExecutorSet
from assayd.executors.worker import ExecutorParts, ExecutorWorker
from assayd.fair_queue import FairSemaphore
from assayd.ids import SystemClock, UlidGenerator
from assayd.kinds import registry
from assayd.log import configure_logging
from assayd.metrics import Metrics
from assayd.model.run import RunSpec
from assayd.sandbox.container import ContainerOrigin
from assayd.sandbox.readiness import ReadinessSupervisor
from assayd.settings import Settings
from assayd.store.artifacts import FileArtifactStore
from assayd.store.jobs import BUNDLES
from assayd.wiring.basics import CoreParts
from assayd.wiring.execution import build_readiness
from assayd.wiring.limits import Part, derive_limits
from assayd.wiring.wings import open_attester


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorStart:
    """The daemon's first message to an executor.

    `settings` are the values of the daemon's settings. `usual` are the runs for which the pool keeps
    containers. If `keeps_contents` is true, the daemon stores the contents of unflushed bundles.
    """

    settings: Mapping[str, object]
    origin: ContainerOrigin
    part: Part
    usual: Sequence[RunSpec]
    keeps_contents: bool


def build_executors(
    basics: CoreParts, execution: LocalExecution, readiness: ReadinessSupervisor, usual: Sequence[RunSpec]
) -> ExecutorSet:
    """Return the executors that the settings demand; they run while `opened()` is entered."""
    settings, origin, count = basics.settings, basics.origin, basics.settings.executors
    # An executor must not choose another engine than the daemon.
    values = settings.model_dump()
    values["engine"]["kind"] = readiness.engine_kind

    def start(number: int) -> ExecutorStart:
        return ExecutorStart(
            settings=values,
            origin=ContainerOrigin(
                daemon_id=origin.daemon_id, generation=origin.generation, executor=str(number)
            ),
            part=Part(number=number, count=count, is_executor=True),
            usual=usual,
            keeps_contents=basics.jobs.unsynced is not None,
        )

    async def sweep(number: int) -> None:
        await readiness.reaper.of_executor(number).sweep(patient=False)

    parts = DaemonParts(
        jobs=basics.jobs,
        require_image=execution.require_image,
        attachments=basics.conclusion.attachments,
        slots=execution.slots,
        refuse_further_run=execution.refuse_further_run,
        sweep=sweep,
        images=basics.policies.images_with_profiles,
    )
    executors = ExecutorSet(
        count, WorkerParents(basics.overrides.executor_program, settings.validators), start, parts
    )
    basics.policies.on_reload = executors.send_images
    basics.metrics.others = executors.samples
    return executors


async def build_executor_parts(worker: ExecutorWorker, start: object, stack: AsyncExitStack) -> ExecutorParts:
    """Build the parts of an executor, in its process."""
    if not isinstance(start, ExecutorStart):
        raise AssaydError("internal", f"an executor can't start with {type(start).__name__}")
    settings, part = Settings.model_validate(start.settings), start.part
    configure_logging(settings.log.level, settings.log.format)
    structlog.contextvars.bind_contextvars(executor=part.number)
    registry.apply_operator_tables(kinds := registry.load_validators(settings.validators), settings.tables)
    clock, metrics, limits = SystemClock(), Metrics(), derive_limits(settings, part)
    readiness = await build_readiness(
        settings,
        limits,
        part=part,
        usual=start.usual,
        images_named=lambda: worker.images,
        clock=clock,
        ids=UlidGenerator(),
        origin=start.origin,
        metrics=metrics,
        stack=stack,
    )
    kept = worker.contents if start.keeps_contents else None
    daemon_id = start.origin.daemon_id
    local = LocalExecution(
        run_static_stages=worker.get_checked,
        sandbox=readiness.sandbox,
        jobs=worker,
        conclusion=ConclusionWriter(
            artifacts=FileArtifactStore(settings.state_dir / BUNDLES, kept),
            clock=clock,
            attachments=worker.get_attachments,
            attester=open_attester(settings.attestation, daemon_id=daemon_id, clock=clock),
        ),
        clock=clock,
        slots=FairSemaphore(settings.concurrency),
        daemon_id=daemon_id,
        generation=start.origin.generation,
        retry_window_s=settings.engine.patience_s,
        max_runs=settings.attempts.max_runs,
        require_image=worker.require_image,
        add_hints=ImageHints(readiness.sandbox.images, lambda: worker.images).add,
    )
    return ExecutorParts(local=local, readiness=readiness, kinds=kinds, metrics=metrics)
