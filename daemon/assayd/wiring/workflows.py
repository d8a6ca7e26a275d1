"""Loads `assayd_workflows`, the optional workflows package, if it is installed.

The daemon can run without this package.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import structlog
from fastapi import APIRouter

from assayd.attempts.admission import Admission
from assayd.attempts.scheduler import Scheduler
from assayd.model.attempt import Attempt
from assayd.ports.chains import WORKFLOWS_PACKAGE, Chains, NoWorkflows, Workflows
from assayd.store.library import DatabaseLibrary
from assayd.wiring.basics import Basics

log = structlog.get_logger()

ReadDocuments = Callable[[Attempt], Awaitable[tuple[bytes, bytes]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningParts:
    """The parts of the daemon that run nodes as attempts.

    The function `documents` returns the report and the execution of an attempt.
    """

    admission: Admission
    scheduler: Scheduler
    documents: ReadDocuments
    chains: Chains
    library: DatabaseLibrary


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowWing:
    """The workflows, which run until the daemon stops, and their routes."""

    carried: Workflows
    routers: Sequence[APIRouter] = ()


async def open_workflows(basics: Basics, stack: AsyncExitStack, parts: RunningParts) -> WorkflowWing:
    """Start the workflows, which stop when the stack is closed."""
    if find_spec(WORKFLOWS_PACKAGE) is None:
        log.warning("wing.missing", package=WORKFLOWS_PACKAGE, without="workflows")
        return WorkflowWing(carried=NoWorkflows())
    wiring = import_module(f"{WORKFLOWS_PACKAGE}.wiring")
    carried: Workflows = await wiring.open_wing(basics, stack, parts)
    return WorkflowWing(carried=carried, routers=wiring.ROUTERS)
