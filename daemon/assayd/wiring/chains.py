"""Loads `assayd_chains`, the optional package of repairs and generations, if it is installed.

The package is started in three phases: it opens its providers before any other part is built, it is then
connected to the store, and it begins to run chains when attempts can be submitted. Without the package, the
daemon starts but rejects requests for repairs and generations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

import structlog
from fastapi import APIRouter

from assayd.attempts.admission import Admission
from assayd.attempts.scheduler import Scheduler
from assayd.model.attempt import Attempt
from assayd.ports.artifacts import BundleAttachments, no_attachments
from assayd.ports.chains import PACKAGE, Chains, NoChains, RepairRequests, missing_chains
from assayd.ports.clock import Clock, Ids
from assayd.settings import Settings
from assayd.store.access import DatabaseAccess
from assayd.store.jobs import DatabaseJobStore

if TYPE_CHECKING:
    from assayd.wiring.basics import Basics

log = structlog.get_logger()

ReadDocuments = Callable[[Attempt], Awaitable[tuple[bytes, bytes]]]


class ChainParts(Protocol):
    """The parts of the chains package that use the database, for repair requests and bundle files."""

    requests: RepairRequests
    attachments: BundleAttachments

    async def begin(
        self,
        basics: Basics,
        stack: AsyncExitStack,
        *,
        admission: Admission,
        scheduler: Scheduler,
        documents: ReadDocuments,
    ) -> Chains:
        """Build the chains, which run until the stack is closed."""
        ...


class ChainWing(Protocol):
    """The optional chains package, after it has opened its providers."""

    routers: Sequence[APIRouter]

    def join(self, access: DatabaseAccess, jobs: DatabaseJobStore, *, clock: Clock, ids: Ids) -> ChainParts:
        """Build those parts of the package that need only the database."""
        ...


class _EmptyChainWing:
    """An implementation of `ChainWing` and `ChainParts` for daemons without the chains package."""

    routers: Sequence[APIRouter] = ()
    requests: RepairRequests = NoChains()
    attachments: BundleAttachments = staticmethod(no_attachments)

    def join(self, access: DatabaseAccess, jobs: DatabaseJobStore, *, clock: Clock, ids: Ids) -> ChainParts:
        return self

    async def begin(
        self,
        basics: Basics,
        stack: AsyncExitStack,
        *,
        admission: Admission,
        scheduler: Scheduler,
        documents: ReadDocuments,
    ) -> Chains:
        return NoChains()


async def open_chains(settings: Settings, stack: AsyncExitStack) -> ChainWing:
    """Open the chains package, whose providers remove their keys from the environment.

    Raises: ConfigError ``repair.key``, ``repair.extra``.
    """
    if missing_chains():
        log.warning("wing.missing", package=PACKAGE, without="repairs and generations")
        return _EmptyChainWing()
    wing: ChainWing = await import_module(f"{PACKAGE}.wiring").open_wing(settings, stack)
    return wing
