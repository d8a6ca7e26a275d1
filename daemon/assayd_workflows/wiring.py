"""Builds the manager of workflows and its components."""

from __future__ import annotations

from contextlib import AsyncExitStack

from assayd.fair_queue import FairSemaphore
from assayd.wiring.basics import CoreParts
from assayd.wiring.wings import RunningParts
from assayd_workflows.course import WorkflowRunParts
from assayd_workflows.routes import ROUTERS
from assayd_workflows.store import DatabaseWorkflowStore
from assayd_workflows.workflows import WorkflowManager

__all__ = ["ROUTERS", "open_wing"]

MAX_RESULTS_AT_ONCE = 3
"""Maximum number of nodes whose inputs are held at once; parsing can take about 100 MB per node."""


async def open_wing(basics: CoreParts, stack: AsyncExitStack, running: RunningParts) -> WorkflowManager:
    """Build the manager of workflows, which runs workflows until the stack closes."""
    parts = WorkflowRunParts(
        admission=running.admission,
        scheduler=running.scheduler,
        jobs=basics.jobs,
        documents=running.documents,
        chains=running.chains,
        store=DatabaseWorkflowStore(basics.access),
        clock=basics.clock,
        inputs_bytes=basics.limits.payload.inputs_bytes,
        turns=FairSemaphore(MAX_RESULTS_AT_ONCE, reserve_from=2),
    )
    workflows = WorkflowManager(
        parts=parts,
        analyst=basics.analyst,
        library=running.library,
        policies=basics.policies.get,
        repair_requests=basics.chains.requests,
        ids=basics.ids,
        driving=basics.driving,
    )
    return await stack.enter_async_context(workflows.running())
