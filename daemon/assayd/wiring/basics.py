"""Builds the basic parts, on which other parts depend, and defines the overrides of parts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol, TypeVar

from assayd.analysis.analyst import Analyst
from assayd.attempts.conclusion import ConclusionWriter
from assayd.attempts.events import EventHub
from assayd.attempts.execution import Execution, Readiness
from assayd.fair_queue import SHARE
from assayd.kind import Kind
from assayd.metrics import Metrics
from assayd.policies import PolicySet
from assayd.ports.artifacts import ArtifactStore, Attester
from assayd.ports.clock import Clock, IdSource
from assayd.ports.driving import ALONE, Leads, WorkAssignment, is_always_leader
from assayd.ports.tracing import Tracing
from assayd.sandbox.container import ContainerOrigin
from assayd.settings import Settings
from assayd.store.access import DatabaseAccess, OnMessage
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore
from assayd.store.recorder import JobRowWriter
from assayd.webhooks import WebhookSender
from assayd.wiring.limits import DaemonLimits
from assayd.wiring.wings import ChainParts

T = TypeVar("T")


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
    leads: Leads = is_always_leader
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
    stopping: asyncio.Event
    driving: WorkAssignment = ALONE


BuildExecution = Callable[[CoreParts, AsyncExitStack], Awaitable[Execution]]
"""Builds the execution of attempts; running parts are entered into the stack."""
