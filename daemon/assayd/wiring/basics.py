"""Builds the basic parts, on which other parts depend, and defines the overrides of parts.

The basic parts include the stores, the kinds with their policies, and the sender of webhooks.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Protocol, TypeVar

import structlog

from assayd.analysis.analyst import Analyst
from assayd.attempts.conclusion import ConclusionWriter
from assayd.attempts.events import EventHub
from assayd.attempts.execution import Execution, Readiness
from assayd.clock import Clock, IdSource, SystemClock, UlidGenerator
from assayd.egress.resolver import Resolver
from assayd.errors import ConfigError
from assayd.fair_queue import SHARE
from assayd.keys import KeySource, find_key, make_environment_unreadable
from assayd.kind import Kind
from assayd.kinds import registry
from assayd.metrics import Metrics
from assayd.model.hosts import parse_webhook_url
from assayd.policies import PolicySet
from assayd.ports.artifacts import ArtifactStore, Attester
from assayd.ports.driving import ALONE, IsLeader, WorkAssignment, is_always_leader
from assayd.ports.tracing import Tracing
from assayd.sandbox.container import ContainerOrigin
from assayd.settings import Settings, WebhookReceiver, WebhookSettings
from assayd.store.access import DatabaseAccess, OnMessage
from assayd.store.artifacts import FileArtifactStore
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import BUNDLES, DatabaseJobStore, open_job_store
from assayd.store.outbox import Outbox
from assayd.store.recorder import JobRowWriter, Recorder
from assayd.webhooks import Receiver, WebhookClient, WebhookLimits, WebhookSender, read_secret
from assayd.wiring.identity import determine_identity
from assayd.wiring.limits import DaemonLimits, derive_limits
from assayd.wiring.profiles import find_missing_policies, load_profiles
from assayd.wiring.wings import ChainParts, ChainWing, load_recorders, open_attester, open_tracing

T = TypeVar("T")

log = structlog.get_logger()


class PartWrapper(Protocol):
    """A function that wraps a part of the daemon."""

    def __call__(self, part: T, /) -> T:
        """Return the part itself, or a wrapper that forwards calls to the part."""
        ...


def return_part_unchanged(part: T) -> T:
    """Return the part unchanged."""
    return part


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOverrides:
    """Replacements for parts of the daemon. The value None keeps the daemon's part.

    `execution` runs attempts and `artifacts` stores bundles; a gateway replaces both. `database_bytes`
    limits the size of the waiting submissions in an external database. `wrap` is called with the job store,
    the artifact store, the analyst and the sandbox. `loop_share` is the share of the event loop's time that
    one of several active users gets. `leads` returns whether this process cleans up and sends webhooks; of
    the processes that share a database, only one does. `on_message` is called in the transaction that
    writes a webhook message, so that it can notify the other processes. `executor_program` is the module
    that forks executors.
    """

    limits: DaemonLimits | None = None
    clock: Clock | None = None
    kinds: Mapping[str, Kind] | None = None
    analyst: Analyst | None = None
    readiness: Readiness | None = None
    execution: BuildExecution | None = None
    artifacts: ArtifactStore | None = None
    job_rows: JobRowWriter | None = None
    database_bytes: int | None = None
    wrap: PartWrapper = return_part_unchanged
    loop_share: float = SHARE
    leads: IsLeader = is_always_leader
    on_message: OnMessage | None = None
    executor_program: str = "assayd.wiring.executor_program"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreParts:
    """The basic parts. The event `stopping` is set when the daemon stops accepting new work.

    `records` maps each kind to its record store.
    """

    settings: Settings
    overrides: PartOverrides
    limits: DaemonLimits
    jobs: DatabaseJobStore
    records: Mapping[str, object]
    artifacts: ArtifactStore
    policies: PolicySet
    kinds: Mapping[str, Kind]
    clock: Clock
    ids: IdSource
    conclusion: ConclusionWriter
    attester: Attester | None
    tracing: Tracing
    access: DatabaseAccess
    analyst: Analyst
    batch_store: DatabaseBatchStore
    chains: ChainParts
    origin: ContainerOrigin
    copied_from: str | None
    left_out: Mapping[str, str]
    metrics: Metrics
    hub: EventHub
    sender: WebhookSender
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    driving: WorkAssignment = ALONE


BuildExecution = Callable[[CoreParts, AsyncExitStack], Awaitable[Execution]]
"""Builds the execution of attempts; running parts are entered into the stack."""


async def build_basics(
    settings: Settings,
    overrides: PartOverrides,
    wing: ChainWing,
    receivers: Sequence[Receiver],
    stack: AsyncExitStack,
) -> CoreParts:
    """Build the basic parts, and add the running parts to the exit stack."""
    clock, ids, metrics = overrides.clock or SystemClock(), UlidGenerator(), Metrics()
    limits = overrides.limits or derive_limits(settings)
    identity = determine_identity(settings.state_dir, ids)
    # First, so that it ends last, with the spans of all other parts.
    tracing = open_tracing(settings.tracing, stack, metrics, daemon_id=identity.daemon_id)
    # Before the imports of all kinds here, so that it imports them at the same time.
    analyst = overrides.analyst or _build_analyst(settings, limits, metrics)
    await stack.enter_async_context(analyst.opened())
    kinds, policies, left_out = _load_kinds(settings, overrides)
    recorders = load_recorders(kinds)
    jobs, artifacts = await _open_stores(settings, overrides, recorders, stack)
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
        conclusion=_build_conclusion(bundles, clock, chains, attester),
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
        sender=build_sender(
            receivers, settings.webhooks, jobs.access, clock=clock, metrics=metrics, leads=overrides.leads
        ),
    )


def _build_conclusion(
    bundles: ArtifactStore, clock: Clock, chains: ChainParts, attester: Attester | None
) -> ConclusionWriter:
    return ConclusionWriter(artifacts=bundles, clock=clock, attachments=chains.attachments, attester=attester)


def _build_analyst(settings: Settings, limits: DaemonLimits, metrics: Metrics) -> Analyst:
    on_lost = metrics.workers_lost.inc
    return Analyst(limits.analysis, settings.validators, tables=settings.tables, on_lost=on_lost)


def _load_kinds(
    settings: Settings, overrides: PartOverrides
) -> tuple[Mapping[str, Kind], PolicySet, Mapping[str, str]]:
    """Return the kinds whose default policy exists, all policies, and the other kinds' missing ones."""
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


RECEIVERS_SECTION = "webhooks.receivers"
LOOK_UPS = 8


def read_receivers(wanted: Mapping[str, WebhookReceiver]) -> Sequence[Receiver]:
    """Return the listed receivers, after removing their secrets from the environment.

    Raises: ConfigError ``webhooks.key``, if a secret is missing or invalid.
    """
    if wanted:
        make_environment_unreadable()
    found = [_build_receiver(name, one) for name, one in wanted.items()]
    for one in wanted.values():
        if one.secret_variable is not None:
            os.environ.pop(one.secret_variable, None)
    return found


def _build_receiver(name: str, wanted: WebhookReceiver) -> Receiver:
    place = KeySource(variable=wanted.secret_variable, file=wanted.secret_file, section=RECEIVERS_SECTION)
    found = find_key(name, place, os.environ)
    try:
        key = read_secret(found.text)
    except ValueError as problem:
        field = f"{RECEIVERS_SECTION}.{name}"
        raise ConfigError("webhooks.key", f"{field}: {found.source}: {problem}", field=field) from None
    private = tuple(ip_network(one) for one in wanted.private_addresses)
    return Receiver(name=name, url=parse_webhook_url(wanted.url), key=key, private=private)


def derive_webhook_limits(settings: WebhookSettings) -> WebhookLimits:
    """Return the limits of webhooks that the settings define."""
    return WebhookLimits(
        timeout_s=settings.timeout_s,
        retry_for=timedelta(seconds=settings.retry_for_s),
        waiting_per_uid=settings.waiting_per_uid,
    )


def build_sender(
    receivers: Sequence[Receiver],
    settings: WebhookSettings,
    access: DatabaseAccess,
    *,
    clock: Clock,
    metrics: Metrics,
    leads: IsLeader,
) -> WebhookSender:
    """Return the sender of webhook messages for the given receivers."""
    return WebhookSender(
        receivers,
        store=Outbox(access),
        courier=WebhookClient(Resolver(places=LOOK_UPS), settings.timeout_s),
        clock=clock,
        metrics=metrics,
        added=access.messages_added,
        limits=derive_webhook_limits(settings),
        leads=leads,
    )
