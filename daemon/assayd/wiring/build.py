"""Builds all parts from the settings and connects them, and configures the API's servers.

It makes no decisions at run time.
"""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial

import structlog
import uvicorn
from fastapi import APIRouter, FastAPI

from assayd import __version__
from assayd.aio import open_task_group
from assayd.api import SocketAccess, build_loopback_config, build_server_config, create_app
from assayd.api.bounded_http import ConnectionSlots
from assayd.attempts.acceptance import AcceptanceGate, DiskQuota
from assayd.attempts.admission import Admission
from assayd.attempts.execution import Execution, Readiness
from assayd.attempts.policy_trial import PolicyTrialRunner
from assayd.attempts.retention import Retention, UploadTracker
from assayd.attempts.scheduler import Scheduler
from assayd.attempts.service import DaemonService
from assayd.attempts.telemetry import register_disk_gauges, update_gauges_periodically
from assayd.audit import FOLDER, AuditLog
from assayd.batches import DaemonBatches
from assayd.clock import Clock
from assayd.documents.base import digest
from assayd.errors import ConfigError
from assayd.fair_queue import UserThrottle
from assayd.model.attempt import State
from assayd.model.health import DaemonFacts
from assayd.ports.service import Chains, Workflows
from assayd.settings import Settings
from assayd.store.library import DatabaseLibrary
from assayd.store.outbox import Outbox
from assayd.wiring.basics import CoreParts, PartOverrides, build_basics, read_receivers
from assayd.wiring.execution import build_local_execution
from assayd.wiring.wings import (
    RunningParts,
    load_routers,
    open_chains,
    open_workflows,
)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The connected parts of a daemon."""

    basics: CoreParts
    scheduler: Scheduler
    admission: Admission
    readiness: Readiness
    acceptance: AcceptanceGate
    retention: Retention
    service: DaemonService
    batches: DaemonBatches
    chains: Chains
    workflows: Workflows
    wing_routers: Sequence[APIRouter]
    library: DatabaseLibrary
    trials: PolicyTrialRunner | None
    audit: AuditLog


OWN = PartOverrides()


async def build_daemon(settings: Settings, stack: AsyncExitStack, overrides: PartOverrides = OWN) -> Assembly:
    """Build all parts, and add the running parts to the exit stack."""
    # First, so that processes started later have no keys in their environment.
    receivers = read_receivers(settings.webhooks.receivers)
    wing = await open_chains(settings, stack)
    basics = await build_basics(settings, overrides, wing, receivers, stack)
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
    library = _build_library(basics, quota)
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
        basics=basics,
        scheduler=scheduler,
        admission=admission,
        readiness=execution.readiness,
        acceptance=acceptance,
        retention=retention,
        service=service,
        batches=batches,
        chains=chains,
        workflows=workflows.carried,
        wing_routers=(*wing.routers, *workflows.routers),
        trials=_build_trials(basics, execution, admission, service),
        library=library,
        audit=audit,
    )


def _build_library(basics: CoreParts, quota: DiskQuota) -> DatabaseLibrary:
    return DatabaseLibrary(
        basics.access, basics.clock, most_bytes=basics.limits.library_bytes, room=quota.free_document_bytes
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
    tasks = await stack.enter_async_context(open_task_group())
    counting = update_gauges_periodically(metrics, basics.jobs, basics.batch_store, Outbox(basics.access))
    stack.callback(tasks.create_task(counting, name="backlog").cancel)


def _compute_oldest_age(scheduler: Scheduler, clock: Clock) -> float:
    oldest = scheduler.get_oldest_acceptance_time()
    return 0.0 if oldest is None else (clock.now() - oldest).total_seconds()


def _count_in_state(scheduler: Scheduler, state: State) -> int:
    return scheduler.count_by_state()[state]


def open_audit_log(settings: Settings, basics: CoreParts, stack: AsyncExitStack) -> AuditLog:
    """Open the audit log and record the start. When the stack is closed, record the stop and close the log.

    Raises: ConfigError ``state.unusable``, if the log can't be opened.
    """
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
        policies=basics.policies.get_digests_by_name(),
    )
    return audit


WORKER_USER = "assayd-node"
"""The user of the systemd service that runs the worker of a cluster's node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiConfigs:
    """The configurations of the servers: one on the socket, and one for metrics on a loopback address."""

    socket: uvicorn.Config
    metrics: uvicorn.Config


def configure_api(settings: Settings, parts: Assembly) -> ApiConfigs:
    """Return the configurations of the API server and the metrics server."""
    access, limits = build_socket_access(settings), settings.limits
    app = build_application(parts, access)
    places = ConnectionSlots(limits.connections)
    parts.basics.metrics.connections.set_function(lambda: places.total)
    return ApiConfigs(
        socket=build_server_config(
            app,
            access,
            places=places,
            silence_s=limits.silence_s,
            refused=parts.basics.metrics.refused_connections.inc,
        ),
        metrics=build_loopback_config(parts.service.metrics),
    )


def build_application(parts: Assembly, access: SocketAccess, routers: Sequence[APIRouter] = ()) -> FastAPI:
    """Return the API application with the daemon's routers and the additional `routers`."""
    return create_app(
        parts.service,
        parts.batches,
        chains=parts.chains,
        workflows=parts.workflows,
        library=parts.library,
        trials=parts.trials,
        access=access,
        limits=parts.basics.limits.api,
        metrics=parts.basics.metrics,
        routers=(*parts.wing_routers, *load_routers(parts.basics.kinds), *routers),
        budget=parts.scheduler.budget,
        audit=parts.audit,
        tracing=parts.basics.tracing,
    )


def build_socket_access(settings: Settings) -> SocketAccess:
    """Return the rules that determine which users can connect and which users can see everything."""
    group = settings.access.operators_group
    return SocketAccess(
        uids=frozenset(settings.access.uids),
        gids=frozenset(settings.access.gids),
        operators_gid=grp.getgrnam(group).gr_gid if group else None,
        own_uid=os.geteuid(),
        worker_uid=_find_worker_uid(),
    )


def _find_worker_uid() -> int | None:
    """Return the user of the service `assayd-node`, or None if this host doesn't have that user."""
    try:
        return pwd.getpwnam(WORKER_USER).pw_uid
    except KeyError:
        return None
