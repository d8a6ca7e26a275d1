"""Builds all parts from the settings and connects them. It makes no decisions at run time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog
from fastapi import APIRouter

from assayd import __version__
from assayd.aio import task_group
from assayd.analysis.analyst import Analyst
from assayd.attempts.acceptance import AcceptanceGate, DiskQuota
from assayd.attempts.admission import Admission
from assayd.attempts.conclusion import ConclusionWriter
from assayd.attempts.events import EventHub
from assayd.attempts.execution import Execution, Readiness
from assayd.attempts.policy_trial import PolicyTrialRunner
from assayd.attempts.retention import Retention, UploadTracker
from assayd.attempts.scheduler import Scheduler
from assayd.attempts.service import DaemonService
from assayd.attempts.telemetry import register_disk_gauges, update_gauges_periodically
from assayd.audit import FOLDER, AuditLog
from assayd.batches import DaemonBatches
from assayd.documents.base import digest
from assayd.errors import ConfigError
from assayd.fair_queue import UserThrottle
from assayd.ids import SystemClock, UlidGenerator
from assayd.kind import Kind
from assayd.kinds import registry
from assayd.metrics import Metrics
from assayd.model.attempt import State
from assayd.model.health import DaemonFacts
from assayd.policies import PolicySet
from assayd.ports.artifacts import ArtifactStore
from assayd.ports.clock import Clock
from assayd.ports.service import Chains, Workflows
from assayd.ports.tracing import Tracing
from assayd.sandbox.container import ContainerOrigin
from assayd.settings import Settings
from assayd.store.artifacts import FileArtifactStore
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import BUNDLES, DatabaseJobStore, open_job_store
from assayd.store.library import DatabaseLibrary
from assayd.store.outbox import Outbox
from assayd.store.recorder import Recorder
from assayd.webhooks import Receiver
from assayd.wiring.basics import CoreParts, PartOverrides
from assayd.wiring.execution import build_local_execution
from assayd.wiring.identity import determine_identity
from assayd.wiring.limits import DaemonLimits, derive_limits
from assayd.wiring.profiles import find_missing_policies, load_profiles
from assayd.wiring.webhooks import build_sender, read_receivers
from assayd.wiring.wings import (
    ChainWing,
    RunningParts,
    load_recorders,
    open_attester,
    open_chains,
    open_tracing,
    open_workflows,
)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The connected parts of a daemon."""

    origin: ContainerOrigin
    limits: DaemonLimits
    jobs: DatabaseJobStore
    artifacts: ArtifactStore
    policies: PolicySet
    kinds: Mapping[str, Kind]
    clock: Clock
    hub: EventHub
    metrics: Metrics
    scheduler: Scheduler
    admission: Admission
    readiness: Readiness
    acceptance: AcceptanceGate
    retention: Retention
    service: DaemonService
    batches: DaemonBatches
    batch_store: DatabaseBatchStore
    chains: Chains
    workflows: Workflows
    wing_routers: Sequence[APIRouter]
    library: DatabaseLibrary
    trials: PolicyTrialRunner | None
    audit: AuditLog
    tracing: Tracing


OWN = PartOverrides()


async def build_daemon(settings: Settings, stack: AsyncExitStack, overrides: PartOverrides = OWN) -> Assembly:
    """Build all parts, and add the running parts to the exit stack."""
    # First, so that processes started later have no keys in their environment.
    receivers = read_receivers(settings.webhooks.receivers)
    wing = await open_chains(settings, stack)
    basics = await _build_basics(settings, overrides, wing, receivers, stack)
    execution = await (overrides.execution or build_local_execution)(basics, stack)
    basics = replace(basics, driving=execution.driving)
    scheduler = _build_scheduler(basics, execution)
    await stack.enter_async_context(basics.sender.running())
    await stack.enter_async_context(scheduler.running())
    await _set_gauge_functions(basics, scheduler, stack)
    quota = _build_quota(basics)
    acceptance = AcceptanceGate(execution.readiness.ready, quota, execution.readiness.image_problem)
    admission = _build_admission(basics, scheduler, quota, acceptance)
    uploads = UploadTracker(basics.clock)
    retention = _build_retention(basics, uploads)
    service = _build_service(basics, execution, scheduler, admission, retention, acceptance)
    batches = _build_batches(basics, scheduler, admission, service, uploads)
    await stack.enter_async_context(batches.running())
    audit = open_audit_log(settings, basics, stack)
    chains = await basics.chains.begin(
        basics, stack, admission=admission, scheduler=scheduler, documents=service.read_documents
    )
    library = DatabaseLibrary(
        basics.access, basics.clock, most_bytes=basics.limits.library_bytes, room=quota.free_document_bytes
    )
    running = RunningParts(
        admission=admission,
        scheduler=scheduler,
        documents=service.read_documents,
        chains=chains,
        library=library,
    )
    workflows = await open_workflows(basics, stack, running)
    await basics.analyst.start_workers()
    return Assembly(
        origin=basics.origin,
        limits=basics.limits,
        jobs=basics.jobs,
        artifacts=basics.artifacts,
        policies=basics.policies,
        kinds=basics.kinds,
        clock=basics.clock,
        hub=basics.hub,
        metrics=basics.metrics,
        scheduler=scheduler,
        admission=admission,
        readiness=execution.readiness,
        acceptance=acceptance,
        retention=retention,
        service=service,
        batches=batches,
        batch_store=basics.batch_store,
        chains=chains,
        workflows=workflows.carried,
        wing_routers=(*wing.routers, *workflows.routers),
        trials=_build_trials(basics, execution, admission, service),
        library=library,
        audit=audit,
        tracing=basics.tracing,
    )


def _build_trials(
    basics: CoreParts, execution: Execution, admission: Admission, service: DaemonService
) -> PolicyTrialRunner | None:
    """Return the part that runs trials of profiles, or None if other hosts run the attempts."""
    if execution.selftest is None:
        return None
    return PolicyTrialRunner(
        jobs=basics.jobs,
        admission=admission,
        analyst=basics.analyst,
        kinds=basics.kinds,
        policies=basics.policies,
        wait=service.wait,
        documents=service.documents,
    )


async def _build_basics(
    settings: Settings,
    overrides: PartOverrides,
    wing: ChainWing,
    receivers: Sequence[Receiver],
    stack: AsyncExitStack,
) -> CoreParts:
    clock, ids, metrics = overrides.clock or SystemClock(), UlidGenerator(), Metrics()
    limits = overrides.limits or derive_limits(settings)
    identity = determine_identity(settings.state_dir, ids)
    # First, so that it ends last, with the spans of all other parts.
    tracing = open_tracing(settings.tracing, stack, metrics, daemon_id=identity.daemon_id)
    # Before the imports of all kinds here, so that it imports them at the same time.
    analyst = overrides.analyst or Analyst(
        limits.analysis, settings.validators, tables=settings.tables, on_lost=metrics.workers_lost.inc
    )
    await stack.enter_async_context(analyst.opened())
    kinds, policies, left_out = _load_kinds(settings, overrides)
    recorders = load_recorders(kinds)
    jobs, artifacts = await _open_stores(settings, overrides, recorders, stack)
    sender = build_sender(
        receivers,
        settings.webhooks,
        jobs.access,
        clock=clock,
        metrics=metrics,
        leads=overrides.leads,
    )
    origin = ContainerOrigin(daemon_id=identity.daemon_id, generation=ids.new())
    wrapped, bundles = overrides.wrap(jobs), overrides.wrap(artifacts)
    chains = wing.join(jobs.access, wrapped, clock=clock, ids=ids)
    attester = open_attester(settings.attestation, daemon_id=identity.daemon_id, clock=clock)
    return CoreParts(
        settings=settings,
        overrides=overrides,
        limits=limits,
        jobs=wrapped,
        records={recorder.kind: recorder.records(jobs.access) for recorder in recorders},
        artifacts=bundles,
        policies=policies,
        kinds=kinds,
        left_out=left_out,
        clock=clock,
        ids=ids,
        conclusion=ConclusionWriter(
            artifacts=bundles, clock=clock, attachments=chains.attachments, attester=attester
        ),
        attester=attester,
        tracing=tracing,
        access=jobs.access,
        analyst=analyst,
        batch_store=DatabaseBatchStore(jobs.access),
        chains=chains,
        origin=origin,
        copied_from=identity.copied_from,
        metrics=metrics,
        hub=EventHub(clock),
        sender=sender,
        stopping=asyncio.Event(),
    )


def _load_kinds(
    settings: Settings, overrides: PartOverrides
) -> tuple[Mapping[str, Kind], PolicySet, Mapping[str, str]]:
    """Return the kinds whose default policy exists, all policies, and the other kinds' missing policies."""
    kinds = registry.load_validators(settings.validators) if overrides.kinds is None else overrides.kinds
    policies = load_profiles(settings)
    left_out = find_missing_policies(kinds, policies)
    for name, policy in left_out.items():
        log.error("kind.left_out", kind=name, missing_policy=policy)
    kinds = {name: kind for name, kind in kinds.items() if name not in left_out}
    registry.apply_operator_tables(kinds, settings.tables)
    return kinds, policies, left_out


async def _open_stores(
    settings: Settings, overrides: PartOverrides, recorders: Sequence[Recorder], stack: AsyncExitStack
) -> tuple[DatabaseJobStore, ArtifactStore]:
    opening = open_job_store(
        settings.state_dir,
        settings.database_url,
        recorders,
        overrides.job_rows,
        on_message=overrides.on_message,
    )
    jobs = await stack.enter_async_context(opening)
    return jobs, overrides.artifacts or await _open_artifacts(settings.state_dir, jobs, stack)


async def _open_artifacts(
    state_dir: Path, jobs: DatabaseJobStore, stack: AsyncExitStack
) -> FileArtifactStore:
    """Open the folder of bundles, and repair bundles that a power failure damaged."""
    artifacts = FileArtifactStore(state_dir / BUNDLES, jobs.unsynced)
    await artifacts.sweep()
    if jobs.unsynced is not None:
        await jobs.unsynced.repair(artifacts.repair)
        await stack.enter_async_context(jobs.unsynced.running())
    return artifacts


def _build_scheduler(basics: CoreParts, execution: Execution) -> Scheduler:
    return Scheduler(
        execute=execution.execute,
        jobs=basics.jobs,
        clock=basics.clock,
        hub=basics.hub,
        metrics=basics.metrics,
        stopping=basics.stopping,
        limits=basics.limits.queue,
        pace=UserThrottle(basics.overrides.loop_share),
        checks_here=execution.selftest is not None,
    )


def _build_quota(basics: CoreParts) -> DiskQuota:
    return DiskQuota(
        basics.jobs,
        basics.artifacts,
        basics.clock,
        min_free_bytes=basics.limits.keep.min_free_bytes,
        database_bytes=basics.overrides.database_bytes,
    )


def _build_retention(basics: CoreParts, uploads: UploadTracker) -> Retention:
    return Retention(
        basics.jobs,
        basics.batch_store,
        basics.artifacts,
        basics.clock,
        basics.limits.keep,
        uploads,
        leads=basics.overrides.leads,
        removed=basics.metrics.bundles_removed.inc,
    )


def _build_admission(
    basics: CoreParts, scheduler: Scheduler, quota: DiskQuota, acceptance: AcceptanceGate
) -> Admission:
    return Admission(
        jobs=basics.jobs,
        records=basics.records,
        conclusion=basics.conclusion,
        policies=basics.policies,
        kinds=basics.kinds,
        clock=basics.clock,
        ids=basics.ids,
        webhooks=basics.sender,
        scheduler=scheduler,
        repair_requests=basics.chains.requests,
        acceptance=acceptance,
        caps=basics.limits.attempt,
        quota=quota,
        tracing=basics.tracing,
    )


def _build_service(
    basics: CoreParts,
    execution: Execution,
    scheduler: Scheduler,
    admission: Admission,
    retention: Retention,
    acceptance: AcceptanceGate,
) -> DaemonService:
    return DaemonService(
        jobs=basics.jobs,
        records=basics.records,
        artifacts=basics.artifacts,
        policies=basics.policies,
        kinds=basics.kinds,
        clock=basics.clock,
        admission=admission,
        acceptance=acceptance,
        scheduler=scheduler,
        hub=basics.hub,
        readiness=execution.readiness,
        selftest=execution.selftest,
        retention=retention,
        metrics=basics.metrics,
        caps=basics.limits.attempt,
        copied_from=basics.copied_from,
        left_out=basics.left_out,
        facts=DaemonFacts(
            daemon_id=basics.origin.daemon_id,
            version=__version__,
            state_dir=str(basics.settings.state_dir.absolute()),
            database_in_state=basics.settings.database_url is None,
        ),
        examine_webhooks=basics.sender.examine,
        elsewhere=execution.elsewhere,
    )


def _build_batches(
    basics: CoreParts,
    scheduler: Scheduler,
    admission: Admission,
    service: DaemonService,
    uploads: UploadTracker,
) -> DaemonBatches:
    return DaemonBatches(
        store=basics.batch_store,
        jobs=basics.jobs,
        admission=admission,
        scheduler=scheduler,
        kinds=basics.kinds,
        clock=basics.clock,
        ids=basics.ids,
        image_digest=service.image_digest,
        documents=service.read_documents,
        uploads=uploads,
        limits=basics.limits.batch,
        driving=basics.driving,
        leads=basics.overrides.leads,
        attester=basics.attester,
    )


async def _set_gauge_functions(basics: CoreParts, scheduler: Scheduler, stack: AsyncExitStack) -> None:
    """Make gauges report current values whenever they are read, and start the periodic counts."""
    metrics = basics.metrics
    for state in set(State) - {State.FINISHED}:
        metrics.under_way.labels(state.value).set_function(partial(_count_in_state, scheduler, state))
    metrics.oldest_attempt.set_function(partial(_compute_oldest_age, scheduler, basics.clock))
    register_disk_gauges(metrics, basics.settings.state_dir)
    tasks = await stack.enter_async_context(task_group())
    counting = update_gauges_periodically(metrics, basics.jobs, basics.batch_store, Outbox(basics.access))
    stack.callback(tasks.create_task(counting, name="backlog").cancel)


def _compute_oldest_age(scheduler: Scheduler, clock: Clock) -> float:
    oldest = scheduler.oldest_accepted_at()
    return 0.0 if oldest is None else (clock.now() - oldest).total_seconds()


def _count_in_state(scheduler: Scheduler, state: State) -> int:
    return scheduler.count_by_state()[state]


def open_audit_log(settings: Settings, basics: CoreParts, stack: AsyncExitStack) -> AuditLog:
    """Open the audit log and close it with the stack. Raises: ConfigError ``state.unusable``."""
    folder = settings.state_dir / FOLDER
    try:
        audit = AuditLog(folder)
    except OSError as problem:
        raise ConfigError("state.unusable", f"can't use {folder}: {problem.strerror}") from problem
    stack.callback(audit.close)
    daemon: dict[str, object] = {"daemon": basics.origin.daemon_id}
    stack.callback(audit.note, "daemon.stopped", actor=daemon, subject=__version__)
    audit.note(
        "daemon.started",
        actor=daemon,
        subject=__version__,
        settings=sorted(settings.origins),  # Only names, because values may be secrets.
        settings_sha256=digest(settings.model_dump_json().encode()),
        policies=basics.policies.digests_by_name(),
    )
    return audit
