"""Builds a gateway: a daemon whose attempts run on nodes, and whose bundles are in shared storage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NoReturn

import structlog
from celery import Celery

from assayd.aio import BroadcastEvent, open_task_group
from assayd.attempts.conclusion import VerdictRecorder
from assayd.attempts.execution import Execution
from assayd.attempts.scheduler import Scheduler
from assayd.clock import UlidGenerator
from assayd.errors import ConfigError, StoreError
from assayd.policies import PolicySet
from assayd.ports.driving import WorkKind
from assayd.store.access import DatabaseAccess
from assayd.store.jobs import BUNDLES
from assayd.wiring import OWN, Assembly, CoreParts, PartOverrides, build_daemon
from assayd_cluster.broker import create_celery
from assayd_cluster.bundles import open_bundles
from assayd_cluster.bundles.verified import sweep_in_background
from assayd_cluster.gateway.broker_accounts import BrokerAccounts, ManagedAccounts, SharedAccount
from assayd_cluster.gateway.execution import RemoteExecution, RunMonitor
from assayd_cluster.gateway.failing_nodes import NodeFailureCounter
from assayd_cluster.gateway.live import OtherGatewayAttempts, RunUpdateRecorder, parse_event_notice
from assayd_cluster.gateway.membership import AdoptedWork, GatewayWorkAssignment, Membership
from assayd_cluster.gateway.metrics import ClusterMetrics
from assayd_cluster.gateway.notices import GatewayNotices, Notice
from assayd_cluster.gateway.outbox import BrokerPublisher, DispatchOutbox, MessagePublisher
from assayd_cluster.gateway.queue_watch import (
    QueueLengthReader,
    QueueMonitor,
    QueueReaderMonitor,
    count_unclaimed,
)
from assayd_cluster.gateway.readiness import ClusterHealthChecks, ClusterReadiness
from assayd_cluster.gateway.recording import GatewayJobRows
from assayd_cluster.gateway.routes import NodeServices
from assayd_cluster.gateway.runs import RunTable
from assayd_cluster.gateway.signing import RunAttester
from assayd_cluster.gateway.verdicts import RunVerdictRecorder
from assayd_cluster.nodes import DatabaseNodes, NodeTable
from assayd_cluster.settings import (
    ClusterSettings,
    GatewaySettings,
    read_secret,
    require_encrypted_broker,
    require_encrypted_database,
    require_encrypted_management,
)
from assayd_cluster.tables import ALL

log = structlog.get_logger()

MIB = 2**20
TENANTS_SHARE = 0.5
"""Maximum share of a gateway's time for one of several tenants, because a gateway only processes requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterParts:
    """The components that a gateway has in addition to those of a daemon."""

    gateway_id: str
    basics: CoreParts
    membership: Membership
    readiness: ClusterReadiness
    execution: RemoteExecution
    publisher: MessagePublisher
    door: NodeServices
    driving: GatewayWorkAssignment
    metrics: ClusterMetrics
    accounts: BrokerAccounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A gateway, which consists of a daemon's components and the components for the cluster."""

    parts: Assembly
    cluster: ClusterParts

    async def continue_adopted_work(self, adopted_work: AdoptedWork) -> None:
        """Continue the work that this gateway has taken over from dead gateways."""
        found = await self.parts.basics.jobs.get_many(adopted_work.attempts)
        unfinished = sorted(
            (attempt for attempt in found.values() if not self.cluster.execution.is_pending_here(attempt.id)),
            key=lambda attempt: (attempt.created_at, attempt.id),
        )
        self.cluster.metrics.inherited.inc(len(unfinished))
        await self.parts.admission.recover(unfinished, renumbered=False)
        of = {kind: {subject for name, subject in adopted_work.driven if name == kind} for kind in WorkKind}
        await self.parts.batches.recover(unfinished, of[WorkKind.BATCH])
        await self.parts.chains.recover_unfinished(of[WorkKind.REPAIR] | of[WorkKind.GENERATION])
        await self.parts.workflows.recover_unfinished(of[WorkKind.WORKFLOW])

    async def look(self, kind: WorkKind, subject: str) -> None:
        """Check work that this gateway drives, because another gateway sent a notice about the work."""
        match kind:
            case WorkKind.BATCH:
                await self.parts.batches.check_batch(subject)
            case WorkKind.REPAIR | WorkKind.GENERATION:
                await self.parts.chains.recover_unfinished({subject})
            case WorkKind.WORKFLOW:
                await self.parts.workflows.recover_unfinished({subject})

    def end(self, kind: WorkKind, subject: str) -> None:
        """End work that this gateway drives, because a caller of another gateway requested this.

        Do nothing for a batch.
        """
        if kind is WorkKind.WORKFLOW:
            self.parts.workflows.end(subject)
        elif kind is not WorkKind.BATCH:
            self.parts.chains.end(subject)


async def build_gateway(
    settings: GatewaySettings,
    stack: AsyncExitStack,
    publish: MessagePublisher | None = None,
    overrides: PartOverrides = OWN,
) -> Gateway:
    """Build all components of the gateway, and enter those with a lifecycle into the stack.

    In tests, `publish` replaces the broker, and `overrides` replaces other components.

    Raises: ConfigError, if the settings are unusable.
    """
    chosen = settings.cluster
    if settings.executors:
        message = (
            "executors: a gateway runs no containers; set executors in the settings of its nodes' daemons"
        )
        raise ConfigError("settings.invalid", message, field="executors")
    database_url = read_secret(chosen.database_url_file, "cluster.database_url_file")
    require_encrypted_database(database_url, "cluster.database_url_file")
    gateway_id = UlidGenerator().new()
    notices = GatewayNotices(database_url, gateway_id)
    job_rows = GatewayJobRows(gateway_id, notices)
    broker = _BrokerParts(publisher=publish) if publish is not None else _open_broker(settings)
    building = _ClusterBuilder(gateway_id, notices, job_rows, broker, chosen)
    bundles = open_bundles(chosen.bundles, settings.state_dir / BUNDLES)
    overrides = replace(
        overrides,
        execution=building.execution,
        artifacts=bundles,
        job_rows=job_rows,
        database_bytes=chosen.database_mb * MIB,
        loop_share=TENANTS_SHARE,
        leads=building.leads,
        on_message=partial(notices.send_notice, kind="message"),
    )
    settings = settings.model_copy(update={"database_url": database_url})
    parts = await build_daemon(settings, stack, overrides)
    cluster = building.get_parts()
    await stack.enter_async_context(sweep_in_background(bundles, cluster.basics.access))
    gateway = Gateway(parts=parts, cluster=cluster)
    tasks = await stack.enter_async_context(open_task_group())
    sizing = tasks.create_task(
        _resize_scheduler_periodically(parts.scheduler, cluster.readiness), name="size"
    )
    stack.callback(sizing.cancel)
    _subscribe_to_work_notices(notices, gateway, tasks)
    stack.callback(notices.remove_callback, "look")
    return gateway


@dataclass(frozen=True, slots=True, kw_only=True)
class _BrokerParts:
    """The components of the broker connection. `celery` is None if tests don't use a broker."""

    publisher: MessagePublisher
    celery: Celery | None = None
    accounts: BrokerAccounts = field(default_factory=SharedAccount)


def _open_broker(settings: GatewaySettings) -> _BrokerParts:
    chosen = settings.cluster
    url = read_secret(chosen.broker_url_file, "cluster.broker_url_file")
    require_encrypted_broker(url, "cluster.broker_url_file")
    celery = create_celery(url, queue=chosen.queue, ca_file=chosen.broker_ca_file)
    return _BrokerParts(
        publisher=BrokerPublisher(celery), celery=celery, accounts=_open_broker_accounts(chosen, url)
    )


def _open_broker_accounts(chosen: ClusterSettings, broker_url: str) -> BrokerAccounts:
    if chosen.broker_management_url_file is None:
        return SharedAccount()
    setting = "cluster.broker_management_url_file"
    url = read_secret(chosen.broker_management_url_file, setting)
    require_encrypted_management(url, setting)
    return ManagedAccounts(url, broker_url, queue=chosen.queue, ca_file=chosen.broker_ca_file)


def _count_republished(queue: QueueMonitor, metrics: ClusterMetrics) -> None:
    queue.record_republished_attempt()
    metrics.republished.inc()


def _count_reclaimed_run(queue: QueueMonitor, metrics: ClusterMetrics, reason: str) -> None:
    queue.record_taken_back_run()
    metrics.taken_back.labels(reason).inc()


def _count_passed_on(queue: QueueMonitor, metrics: ClusterMetrics) -> None:
    queue.record_passed_on_attempt()
    metrics.republished.inc()


class _ClusterBuilder:
    """A builder of the cluster's components, used after the daemon's first components are built."""

    def __init__(
        self,
        gateway_id: str,
        notices: GatewayNotices,
        job_rows: GatewayJobRows,
        broker: _BrokerParts,
        chosen: ClusterSettings,
    ) -> None:
        self._gateway_id = gateway_id
        self._notices = notices
        self._job_rows = job_rows
        self._broker = broker
        self._publisher = broker.publisher
        self._chosen = chosen
        self._built: ClusterParts

    def leads(self) -> bool:
        """Return whether this gateway is the oldest one, which cleans up and sends webhooks."""
        return self._built.readiness.census.eldest == self._gateway_id

    def get_parts(self) -> ClusterParts:
        """Return the components of the cluster."""
        return self._built

    async def execution(self, basics: CoreParts, stack: AsyncExitStack) -> Execution:
        """Build the component that executes attempts on nodes."""
        access, registry = basics.access, basics.metrics.registry
        await access.create_tables(ALL)
        metrics, queue, cancels = ClusterMetrics(registry), QueueMonitor(), BroadcastEvent()
        membership = await stack.enter_async_context(Membership(access, self._gateway_id).running())
        dispatches = DispatchOutbox(access, self._job_rows.messages, self._gateway_id, self._notices)
        count = partial(_count_message, metrics)
        await stack.enter_async_context(self._publisher.running(dispatches, count))
        runs = RunTable(access, self._notices, longest_run_s=self._chosen.longest_run_h * 3600)
        failing = NodeFailureCounter(access, self._broker.accounts)
        remote = RemoteExecution(
            dispatches=dispatches,
            publisher=self._publisher,
            watch=RunMonitor(access, self._gateway_id),
            runs=runs,
            failing=failing,
            jobs=basics.jobs,
            conclusion=basics.conclusion,
            verdicts=_build_own_verdicts(basics),
            hub=basics.hub,
            stopping=basics.stopping,
            cancels=cancels,
            queue_is_empty=lambda: queue.is_empty,
            on_republished=partial(_count_republished, queue, metrics),
            on_taken_back=partial(_count_reclaimed_run, queue, metrics),
        )
        await stack.enter_async_context(remote.running())
        others = OtherGatewayAttempts(basics.jobs, basics.hub, dispatches)
        live = RunUpdateRecorder(
            access,
            runs,
            _build_verdicts(basics, runs, remote),
            execution=remote,
            others=others,
            notices=self._notices,
            failing=failing,
            cancels=cancels,
            on_passed_on=partial(_count_passed_on, queue, metrics),
        )
        _subscribe_to_notices(self._notices, remote, others, live, cancels)
        self._notices.register_callback("message", lambda _: access.messages_added.set())
        await stack.enter_async_context(self._notices.running())
        await self._watch_queue(queue, access, failing, stack)
        profiles = partial(_map_policy_digests, basics.policies)
        nodes = NodeTable(access, profiles, most_capacity=self._chosen.node_capacity)
        driving = GatewayWorkAssignment(access, self._gateway_id, self._notices)
        readiness = self._build_readiness(basics, nodes, metrics, queue)
        self._built = ClusterParts(
            gateway_id=self._gateway_id,
            basics=basics,
            membership=membership,
            readiness=readiness,
            execution=remote,
            publisher=self._publisher,
            door=NodeServices(nodes=nodes, runs=live, metrics=metrics),
            driving=driving,
            metrics=metrics,
            accounts=self._broker.accounts,
        )
        return Execution(
            execute=remote, readiness=readiness, selftest=None, elsewhere=others, driving=driving
        )

    async def _watch_queue(
        self, queue: QueueMonitor, access: DatabaseAccess, failing: NodeFailureCounter, stack: AsyncExitStack
    ) -> None:
        if self._broker.celery is not None:
            watching = await stack.enter_async_context(open_task_group())
            waiting, unclaimed = QueueLengthReader(self._broker.celery), partial(access.read, count_unclaimed)
            readers = QueueReaderMonitor(access, self._broker.accounts, failing, queue)
            for name, work in (("queue", queue.keep(waiting, unclaimed)), ("readers", readers.keep())):
                stack.callback(watching.create_task(work, name=name).cancel)

    def _build_readiness(
        self, basics: CoreParts, nodes: NodeTable, metrics: ClusterMetrics, queue: QueueMonitor
    ) -> ClusterReadiness:
        seen = DatabaseNodes(basics.access)
        doctor = ClusterHealthChecks(
            access=basics.access,
            nodes=seen,
            publisher=self._publisher,
            artifacts=basics.artifacts,
            accounts=self._broker.accounts,
            queue=queue,
        )
        return ClusterReadiness(nodes, seen, metrics, doctor, queue)


def _build_own_verdicts(basics: CoreParts) -> VerdictRecorder:
    """Return the recorder for verdicts of attempts that weren't judged by a node."""
    return VerdictRecorder(
        jobs=basics.jobs,
        artifacts=basics.artifacts,
        clock=basics.clock,
        hub=basics.hub,
        stopping=basics.stopping,
    )


def _count_message(metrics: ClusterMetrics, outcome: str) -> None:
    metrics.messages.labels(outcome).inc()


async def _resize_scheduler_periodically(scheduler: Scheduler, readiness: ClusterReadiness) -> NoReturn:
    """Limit the attempts in progress to this gateway's share of the nodes' capacity, which can change."""
    while True:
        changed = readiness.changed.next
        scheduler.set_max_active(readiness.census.share)
        await changed.wait()


def _build_verdicts(basics: CoreParts, runs: RunTable, remote: RemoteExecution) -> RunVerdictRecorder:
    signing = None
    if basics.attester is not None:
        signing = RunAttester(
            attester=basics.attester,
            analyst=basics.analyst,
            kinds=basics.kinds,
            policies=basics.policies,
        )
    return RunVerdictRecorder(
        runs=runs,
        jobs=basics.jobs,
        artifacts=basics.artifacts,
        attachments=basics.conclusion.attachments,
        clock=basics.clock,
        hub=basics.hub,
        execution=remote,
        attester=signing,
    )


def _subscribe_to_work_notices(notices: GatewayNotices, gateway: Gateway, tasks: asyncio.TaskGroup) -> None:
    """Pass notices about driven work to the components of this gateway that drive the work."""
    driving = gateway.cluster.driving

    async def look(kind: WorkKind, subject: str) -> None:
        try:
            if await driving.is_assigned_here(kind, subject):
                await gateway.look(kind, subject)
        except StoreError as trouble:  # it is examined again when it is taken over or extended
            log.error("driven.not_looked_at", code=trouble.code, kind=kind, subject=subject)

    def on_check_notice(notice: Notice) -> None:
        tasks.create_task(look(WorkKind(notice["what"]), notice["subject"]), name="look")

    notices.register_callback("look", on_check_notice)
    notices.register_callback("end", lambda notice: gateway.end(WorkKind(notice["what"]), notice["subject"]))


def _map_policy_digests(policies: PolicySet) -> Mapping[str, str]:
    return {name: policies.get(name).digest for name in policies.names}


def _subscribe_to_notices(
    notices: GatewayNotices,
    remote: RemoteExecution,
    others: OtherGatewayAttempts,
    live: RunUpdateRecorder,
    cancels: BroadcastEvent,
) -> None:
    """Register the callbacks for notices from other gateways."""
    finishing: set[asyncio.Task[None]] = set()

    def finished(notice: Notice) -> None:
        live.forget(notice["attempt"])
        remote.check_verdict(notice["attempt"])
        task = asyncio.ensure_future(others.finish(notice["attempt"]))
        finishing.add(task)
        task.add_done_callback(finishing.discard)

    def cancelled(notice: Notice) -> None:
        remote.cancel(notice["attempt"])
        cancels.wake_all()

    def again(notice: Notice) -> None:
        live.publish_again(notice["attempt"])
        if "refused_by" in notice:
            live.note_refusal(notice["attempt"], notice["refused_by"])

    def exhausted(notice: Notice) -> None:
        live.forget(notice["attempt"])
        remote.end_without_runs(notice["attempt"])

    def missed() -> None:
        live.forget()
        remote.check_all_verdicts()
        others.wake_all_waiters()
        cancels.wake_all()

    notices.register_callback("finished", finished)
    notices.register_callback("cancelled", cancelled)
    notices.register_callback("again", again)
    notices.register_callback("exhausted", exhausted)
    notices.register_callback("event", lambda notice: live.publish_event(parse_event_notice(notice)))
    notices.register_missed_callback(missed)
