"""The parts that are there before those that work with them, and what is brought in the place of some."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Protocol, TypeVar

from assayd.analysis.analyst import Analyst
from assayd.attempts.conclusion import Conclusion
from assayd.attempts.events import EventHub
from assayd.attempts.execution import Execution, Readiness
from assayd.kind import Kind
from assayd.metrics import Metrics
from assayd.pace import SHARE
from assayd.policies import PolicySet
from assayd.ports.artifacts import ArtifactStore
from assayd.ports.attesting import Attester
from assayd.ports.clock import Clock, Ids
from assayd.ports.driving import ALONE, Driving, Leads, leads_alone
from assayd.ports.tracing import Tracing
from assayd.sandbox.container import ContainerOrigin
from assayd.settings import Settings
from assayd.store.access import DatabaseAccess
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore
from assayd.store.recorder import JobRows
from assayd.webhooks import Sender
from assayd.wiring.chains import ChainParts
from assayd.wiring.limits import DaemonLimits

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
    """What is brought in the place of parts that the settings mean; None leaves the daemon's own.

    `execution` is where attempts run, and `artifacts` where bundles lie: what a gateway exchanges.
    `database_bytes` is what submissions that wait may take of a database that is elsewhere.
    `wrap` gets the job store, the artifact store, the analyst and the sandbox, as attempts use them.
    `loop_share` is the part of the event loop's time for a user who isn't alone.
    `leads` is whether this process cleans up and sends to webhooks; of several on one database, one does.
    """

    limits: DaemonLimits | None = None
    clock: Clock | None = None
    kinds: Mapping[str, Kind] | None = None
    analyst: Analyst | None = None
    readiness: Readiness | None = None
    execution: BuildExecution | None = None
    artifacts: ArtifactStore | None = None
    job_rows: JobRows | None = None
    database_bytes: int | None = None
    wrap: Wrap = unwrapped
    loop_share: float = SHARE
    leads: Leads = leads_alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Basics:
    """What is there before the parts that work with it. `stopping` is set once nothing more is started.

    `records` are those that kinds keep, by kind.
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
    ids: Ids
    conclusion: Conclusion
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
    sender: Sender
    stopping: asyncio.Event
    driving: Driving = ALONE


BuildExecution = Callable[[Basics, AsyncExitStack], Awaitable[Execution]]
"""Builds the place where attempts run; running parts are entered into the stack."""
