"""Loads what the core does not import: wings, and the recorders and routes of kinds.

The daemon starts without any wing. The wing of chains is started in three phases: it opens its providers
before any other part is built, it is then connected to the store, and it begins to run chains when attempts
can be submitted. The wings of tracing and attestation are imported only if they are configured.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, cast

import structlog
from fastapi import APIRouter

from assayd.attempts.admission import Admission
from assayd.attempts.scheduler import Scheduler
from assayd.clock import Clock, IdSource
from assayd.errors import ConfigError
from assayd.kind import Kind
from assayd.kinds.registry import import_reference
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt
from assayd.ports.artifacts import Attester, BuildAttachments, build_no_attachments
from assayd.ports.service import (
    PACKAGE,
    WORKFLOWS_PACKAGE,
    Chains,
    NullChains,
    NullWorkflows,
    RepairRequests,
    Workflows,
    find_missing_chain_packages,
)
from assayd.ports.tracing import NO_TRACING, Tracing
from assayd.settings import Settings
from assayd.settings.model import AttestationSettings, TracingSettings
from assayd.store.access import DatabaseAccess
from assayd.store.jobs import DatabaseJobStore
from assayd.store.library import DatabaseLibrary
from assayd.store.recorder import Recorder

if TYPE_CHECKING:
    from assayd.wiring.basics import CoreParts


log = structlog.get_logger()

ReadDocuments = Callable[[Attempt], Awaitable[tuple[bytes, bytes]]]


class ChainParts(Protocol):
    """The parts of the chains package that use the database, for repair requests and bundle files."""

    requests: RepairRequests
    attachments: BuildAttachments

    async def begin(
        self,
        basics: CoreParts,
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

    def join(
        self, access: DatabaseAccess, jobs: DatabaseJobStore, *, clock: Clock, ids: IdSource
    ) -> ChainParts:
        """Build those parts of the package that need only the database."""
        ...


class _EmptyChainWing:
    """An implementation of `ChainWing` and `ChainParts` for daemons without the chains package."""

    routers: Sequence[APIRouter] = ()
    requests: RepairRequests = NullChains()
    attachments: BuildAttachments = staticmethod(build_no_attachments)

    def join(
        self, access: DatabaseAccess, jobs: DatabaseJobStore, *, clock: Clock, ids: IdSource
    ) -> ChainParts:
        return self

    async def begin(
        self,
        basics: CoreParts,
        stack: AsyncExitStack,
        *,
        admission: Admission,
        scheduler: Scheduler,
        documents: ReadDocuments,
    ) -> Chains:
        return NullChains()


async def open_chains(settings: Settings, stack: AsyncExitStack) -> ChainWing:
    """Open the chains package, whose providers remove their keys from the environment.

    If it isn't installed, return an empty implementation.

    Raises: ConfigError ``repair.key``, if a key is missing; ``repair.extra``, if a provider's library is.
    """
    if find_missing_chain_packages():
        log.warning("wing.missing", package=PACKAGE, without="repairs and generations")
        return _EmptyChainWing()
    wing: ChainWing = await import_module(f"{PACKAGE}.wiring").open_wing(settings, stack)
    return wing


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


async def open_workflows(basics: CoreParts, stack: AsyncExitStack, parts: RunningParts) -> WorkflowWing:
    """Start the workflows, which stop when the stack is closed.

    If their package isn't installed, return an empty implementation.
    """
    if find_spec(WORKFLOWS_PACKAGE) is None:
        log.warning("wing.missing", package=WORKFLOWS_PACKAGE, without="workflows")
        return WorkflowWing(carried=NullWorkflows())
    wiring = import_module(f"{WORKFLOWS_PACKAGE}.wiring")
    carried: Workflows = await wiring.open_wing(basics, stack, parts)
    return WorkflowWing(carried=carried, routers=wiring.ROUTERS)


TRACING_PACKAGES = (
    "assayd_tracing",
    "opentelemetry",
    "opentelemetry.sdk",
    "opentelemetry.exporter.otlp.proto.http",
)
"""The packages that tracing requires. Each package follows its parent packages."""


def open_tracing(
    settings: TracingSettings, stack: AsyncExitStack, metrics: Metrics, *, daemon_id: str
) -> Tracing:
    """Return the tracing part, which stays open until the stack is closed.

    The package is imported only if a collector is configured. Otherwise, tracing is off.

    Raises: ConfigError ``tracing.missing``, if a package is missing; ``tracing.endpoint`` or
    ``tracing.headers``, if the setting can't be used.
    """
    if settings.endpoint is None:
        return NO_TRACING
    if (missing := _find_missing_package()) is not None:
        message = f"[tracing] needs {missing}: install assayd with the extra `otel`"
        raise ConfigError("tracing.missing", message, field="tracing")
    wing = import_module("assayd_tracing.wiring")
    tracing: Tracing = wing.build_tracing(settings, stack, metrics, daemon_id=daemon_id)
    return tracing


def _find_missing_package() -> str | None:
    for package in TRACING_PACKAGES:
        try:
            found = find_spec(package)
        except ModuleNotFoundError:
            found = None
        if found is None:
            return package
    return None


PACKAGES = ("assayd_attestation", "cryptography")


def open_attester(settings: AttestationSettings, *, daemon_id: str, clock: Clock) -> Attester | None:
    """Return the attester, or None if no key is configured.

    Raises: ConfigError ``attestation.missing``, if a package is missing; ``attestation.key``, if a key can't
    be used.
    """
    if not settings.is_on:
        return None
    missing = [package for package in PACKAGES if find_spec(package) is None]
    if missing:
        message = f"[attestation] needs {', '.join(missing)}: install assayd with the extra `attestation`"
        raise ConfigError("attestation.missing", message, field="attestation")
    wing = import_module("assayd_attestation.wiring")
    attester: Attester = wing.build_attester(settings, daemon_id=daemon_id, clock=clock)
    return attester


def load_recorders(kinds: Mapping[str, Kind]) -> tuple[Recorder, ...]:
    """Return the recorders of all kinds that have one.

    Raises: ConfigError ``validator.broken``, if a reference can't be imported.
    """
    recorders = [
        cast("Recorder", import_reference(validator.recorder))
        for validator in kinds.values()
        if validator.recorder
    ]
    return tuple(recorders)


def load_routers(kinds: Mapping[str, Kind]) -> tuple[APIRouter, ...]:
    """Return the routes of all kinds that have some.

    Raises: ConfigError ``validator.broken``, if a reference can't be imported or isn't a router.
    """
    return tuple(_resolve_router(validator.routes) for validator in kinds.values() if validator.routes)


def _resolve_router(reference: str) -> APIRouter:
    router = import_reference(reference)
    if not isinstance(router, APIRouter):
        raise ConfigError("validator.broken", f"{reference} isn't a router", field=reference)
    return router
