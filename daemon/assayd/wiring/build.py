"""Builds every part from the settings and joins them; nothing here decides anything at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from assayd import __version__
from assayd.analysis.analyst import Analyst
from assayd.attempts.admission import Admission, AdmissionDependencies
from assayd.attempts.attempt_run import AttemptDependencies
from assayd.attempts.disk_quota import DiskQuota
from assayd.attempts.events import EventHub
from assayd.attempts.image_hints import ImageHints
from assayd.attempts.image_trials import ImageTrials
from assayd.attempts.retention import Retention
from assayd.attempts.scheduler import Scheduler
from assayd.attempts.selftest import SelfTest
from assayd.attempts.service import DaemonService, ServiceDependencies
from assayd.attempts.telemetry import watch_disk
from assayd.attempts.uploads import Uploads
from assayd.batches import BatchDependencies, DaemonBatches
from assayd.fair_queue import FairSemaphore
from assayd.generations.generations import DaemonGenerations
from assayd.generations.loop import GenerationDependencies
from assayd.ids import SystemClock, Ulids
from assayd.kinds import registry
from assayd.metrics import Metrics
from assayd.model.attempt import State
from assayd.ports.batches import BatchStore
from assayd.ports.clock import Clock
from assayd.ports.generations import GenerationStore, Library
from assayd.ports.llm import Provider
from assayd.ports.repairs import RepairStore
from assayd.ports.service import DaemonFacts
from assayd.ports.validator import Validator
from assayd.repairs.attempt_gateway import AttemptGateway, stored_submission
from assayd.repairs.chain import repair_attachments
from assayd.repairs.loop import RepairDependencies
from assayd.repairs.repairs import DaemonRepairs
from assayd.repairs.requests import RecordedRequests
from assayd.sandbox.container import ContainerOrigin
from assayd.sandbox.isolation_check import check_isolation
from assayd.sandbox.readiness import ReadinessSupervisor
from assayd.settings import Settings
from assayd.store.artifacts import FileArtifactStore
from assayd.store.batches import DatabaseBatchStore
from assayd.store.generations import DatabaseGenerationStore
from assayd.store.jobs import BUNDLES, open_jobs
from assayd.store.library import DatabaseLibrary
from assayd.store.repairs import DatabaseRepairStore
from assayd.webhooks import Receiver, Sender
from assayd.wiring.containers import build_readiness
from assayd.wiring.from_kinds import recorders_of
from assayd.wiring.identity import identify
from assayd.wiring.limits import DaemonLimits, limits_from
from assayd.wiring.profiles import load_profiles
from assayd.wiring.providers import open_providers
from assayd.wiring.webhooks import build_sender, read_receivers

T = TypeVar("T")


class Wrap(Protocol):
    """Puts something around a part."""

    def __call__(self, part: T, /) -> T:
        """Return the part, or something in its place that passes its calls on."""
        ...


def unwrapped(part: T) -> T:
    """Return the part as it is."""
    return part


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOverrides:
    """What tests bring in the place of parts that the settings mean; None leaves the daemon's own.

    `wrap` gets the job store, the artifact store, the analyst and the sandbox, as attempts use them.
    """

    limits: DaemonLimits | None = None
    clock: Clock | None = None
    kinds: Mapping[str, Validator] | None = None
    analyst: Analyst | None = None
    readiness: ReadinessSupervisor | None = None
    wrap: Wrap = unwrapped


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The parts of a daemon. `shared` holds those that most of the others use."""

    origin: ContainerOrigin
    limits: DaemonLimits
    shared: AdmissionDependencies
    hub: EventHub
    metrics: Metrics
    scheduler: Scheduler
    admission: Admission
    readiness: ReadinessSupervisor
    retention: Retention
    service: DaemonService
    batches: DaemonBatches
    batch_store: BatchStore
    repairs: DaemonRepairs
    generations: DaemonGenerations
    library: Library


@dataclass(frozen=True, slots=True, kw_only=True)
class _Basics:
    """What is there before the parts that work with it."""

    settings: Settings
    overrides: PartOverrides
    limits: DaemonLimits
    shared: AdmissionDependencies
    analyst: Analyst
    readiness: ReadinessSupervisor
    batch_store: BatchStore
    repair_store: RepairStore
    generation_store: GenerationStore
    library: Library
    requests: RecordedRequests
    origin: ContainerOrigin
    copied_from: str | None
    metrics: Metrics
    hub: EventHub
    sender: Sender


OWN = PartOverrides()


async def build(settings: Settings, stack: AsyncExitStack, overrides: PartOverrides = OWN) -> Assembly:
    """Build every part; each that has a life of its own is entered into the stack."""
    # First: what is started after this has no keys in its environment.
    receivers = read_receivers(settings.webhooks.receivers)
    providers = await open_providers(settings.repair.providers, stack)
    basics = await _basics(settings, overrides, providers, receivers, stack)
    shared, limits = basics.shared, basics.limits
    scheduler = _build_scheduler(basics)
    await stack.enter_async_context(basics.sender.running())
    await stack.enter_async_context(scheduler.running())
    _watch(basics.metrics, scheduler, settings.state_dir)
    admission = Admission(
        shared,
        scheduler,
        basics.requests,
        ready=basics.readiness.ready,
        caps=limits.attempt,
        quota=DiskQuota(
            shared.jobs, shared.artifacts, shared.clock, min_free_bytes=limits.keep.min_free_bytes
        ),
    )
    uploads = Uploads(shared.clock)
    retention = Retention(
        shared.jobs, basics.batch_store, shared.artifacts, shared.clock, limits.keep, uploads
    )
    service = _build_service(basics, scheduler, admission, retention)
    batches = _build_batches(basics, scheduler, admission, service, uploads)
    await stack.enter_async_context(batches.running())
    gateway = AttemptGateway(
        admission=admission, scheduler=scheduler, jobs=shared.jobs, documents=service.read_documents
    )
    repairs = _build_repairs(basics, gateway, providers)
    await stack.enter_async_context(repairs.running())
    generations = _build_generations(basics, gateway, repairs, providers)
    await stack.enter_async_context(generations.running())
    return Assembly(
        origin=basics.origin,
        limits=limits,
        shared=shared,
        hub=basics.hub,
        metrics=basics.metrics,
        scheduler=scheduler,
        admission=admission,
        readiness=basics.readiness,
        retention=retention,
        service=service,
        batches=batches,
        batch_store=basics.batch_store,
        repairs=repairs,
        generations=generations,
        library=basics.library,
    )


async def _basics(
    settings: Settings,
    overrides: PartOverrides,
    providers: Mapping[str, Provider],
    receivers: Sequence[Receiver],
    stack: AsyncExitStack,
) -> _Basics:
    clock, ids, metrics = overrides.clock or SystemClock(), Ulids(), Metrics()
    limits = overrides.limits or limits_from(settings)
    kinds = registry.load(settings.validators) if overrides.kinds is None else overrides.kinds
    registry.use_tables(kinds, settings.tables)
    recorders = recorders_of(kinds)
    jobs = await stack.enter_async_context(open_jobs(settings.state_dir, settings.database_url, recorders))
    artifacts = FileArtifactStore(settings.state_dir / BUNDLES, jobs.unsynced)
    await artifacts.sweep()
    if jobs.unsynced is not None:
        await jobs.unsynced.repair(artifacts.repair)
        await stack.enter_async_context(jobs.unsynced.running())
    analyst = overrides.analyst or Analyst(limits.analysis, settings.validators, tables=settings.tables)
    await stack.enter_async_context(analyst.running())
    sender = build_sender(receivers, settings.webhooks, jobs.access, clock=clock, metrics=metrics)
    shared = AdmissionDependencies(
        jobs=overrides.wrap(jobs),
        records={recorder.kind: recorder.records(jobs.access) for recorder in recorders},
        artifacts=overrides.wrap(artifacts),
        policies=load_profiles(settings),
        kinds=kinds,
        clock=clock,
        ids=ids,
        webhooks=sender,
    )
    identity = identify(settings.state_dir, ids)
    origin = ContainerOrigin(daemon_id=identity.daemon_id, generation=ids.new())
    repair_store = DatabaseRepairStore(jobs.access)
    return _Basics(
        settings=settings,
        overrides=overrides,
        limits=limits,
        shared=shared,
        analyst=analyst,
        readiness=overrides.readiness
        or await build_readiness(settings, limits, shared, origin=origin, metrics=metrics, stack=stack),
        batch_store=DatabaseBatchStore(jobs.access),
        repair_store=repair_store,
        generation_store=DatabaseGenerationStore(jobs.access),
        library=DatabaseLibrary(jobs.access, clock),
        requests=RecordedRequests(
            store=repair_store,
            kinds=shared.kinds,
            providers=frozenset(providers),
            clock=clock,
            ids=ids,
            timeout=timedelta(seconds=settings.repair.timeout_s),
            max_attempts=settings.repair.max_attempts,
        ),
        origin=origin,
        copied_from=identity.copied_from,
        metrics=metrics,
        hub=EventHub(clock),
        sender=sender,
    )


def _build_scheduler(basics: _Basics) -> Scheduler:
    shared, wrap = basics.shared, basics.overrides.wrap
    sandbox = basics.readiness.sandbox
    trials = ImageTrials(
        sandbox,
        SelfTest(basics.analyst, sandbox),
        check_isolation,
        policies=shared.policies,
        caps=basics.limits.attempt,
    )
    deps = AttemptDependencies(
        analyst=wrap(basics.analyst),
        sandbox=wrap(sandbox),
        jobs=shared.jobs,
        artifacts=shared.artifacts,
        clock=shared.clock,
        slots=FairSemaphore(basics.settings.concurrency),
        daemon_id=basics.origin.daemon_id,
        generation=basics.origin.generation,
        retry_window_s=basics.settings.engine.patience_s,
        attachments=partial(
            repair_attachments, store=basics.repair_store, read=partial(stored_submission, shared.jobs)
        ),
        require_image=trials.require,
        add_hints=ImageHints(sandbox.images, shared.policies.images).add,
    )
    return Scheduler(deps, hub=basics.hub, metrics=basics.metrics, limits=basics.limits.queue)


def _build_service(
    basics: _Basics, scheduler: Scheduler, admission: Admission, retention: Retention
) -> DaemonService:
    return DaemonService(
        ServiceDependencies(
            shared=basics.shared,
            admission=admission,
            scheduler=scheduler,
            hub=basics.hub,
            readiness=basics.readiness,
            selftest=SelfTest(basics.analyst, basics.readiness.sandbox),
            retention=retention,
            metrics=basics.metrics,
            caps=basics.limits.attempt,
            copied_from=basics.copied_from,
            facts=DaemonFacts(
                daemon_id=basics.origin.daemon_id,
                version=__version__,
                state_dir=str(basics.settings.state_dir.absolute()),
                database_in_state=basics.settings.database_url is None,
            ),
            examine_webhooks=basics.sender.examine,
        )
    )


def _build_batches(
    basics: _Basics, scheduler: Scheduler, admission: Admission, service: DaemonService, uploads: Uploads
) -> DaemonBatches:
    deps = BatchDependencies(
        store=basics.batch_store,
        jobs=basics.shared.jobs,
        admission=admission,
        scheduler=scheduler,
        kinds=basics.shared.kinds,
        clock=basics.shared.clock,
        ids=basics.shared.ids,
        image_digest=service.image_digest,
        documents=service.read_documents,
        uploads=uploads,
    )
    return DaemonBatches(deps, basics.limits.batch)


def _build_repairs(
    basics: _Basics, gateway: AttemptGateway, providers: Mapping[str, Provider]
) -> DaemonRepairs:
    deps = RepairDependencies(
        attempts=gateway,
        repairs=basics.repair_store,
        analyst=basics.analyst,
        kinds=basics.shared.kinds,
        providers=providers,
        clock=basics.shared.clock,
        ids=basics.shared.ids,
        timeout=basics.requests.timeout,
        source_bytes=basics.settings.caps.source_bytes,
    )
    return DaemonRepairs(deps, basics.requests, basics.limits.repair, basics.metrics)


def _build_generations(
    basics: _Basics, gateway: AttemptGateway, repairs: DaemonRepairs, providers: Mapping[str, Provider]
) -> DaemonGenerations:
    deps = GenerationDependencies(
        attempts=gateway,
        repairs=repairs,
        store=basics.generation_store,
        analyst=basics.analyst,
        kinds=basics.shared.kinds,
        policies=basics.shared.policies.get,
        providers=providers,
        clock=basics.shared.clock,
        ids=basics.shared.ids,
        timeout=basics.requests.timeout,
        source_bytes=basics.settings.caps.source_bytes,
        webhooks=basics.sender,
    )
    limits = basics.limits.repair
    return DaemonGenerations(deps, at_once=limits.at_once, max_attempts=limits.max_attempts)


def _watch(metrics: Metrics, scheduler: Scheduler, state_dir: Path) -> None:
    """Let gauges show what there is at the moment that they are read."""
    for state in set(State) - {State.FINISHED}:
        metrics.under_way.labels(state.value).set_function(partial(_count, scheduler, state))
    watch_disk(metrics, state_dir)


def _count(scheduler: Scheduler, state: State) -> int:
    return scheduler.states()[state]
