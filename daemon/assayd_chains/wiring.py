"""Builds the chains package from the settings: first providers, then database parts, then chains."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta

from fastapi import APIRouter

from assayd.attempts.admission import Admission
from assayd.attempts.scheduler import Scheduler
from assayd.clock import Clock, IdSource
from assayd.keys import KeySource, find_key, make_environment_unreadable
from assayd.model.attempt import Attempt
from assayd.model.report import Verdict
from assayd.settings import RepairProvider, Settings
from assayd.store.access import DatabaseAccess
from assayd.store.jobs import DatabaseJobStore
from assayd.wiring import CoreParts
from assayd_chains.attempts import DaemonAttempts, ReadDocuments, build_attachments
from assayd_chains.chains import ChainLimits, Chains, RepairRequests
from assayd_chains.fitting import AnswerApplier
from assayd_chains.loop import ChainRunner
from assayd_chains.provider import Provider
from assayd_chains.providers import anthropic, gemini, openai, rules
from assayd_chains.providers.answers import ModelAccount
from assayd_chains.providers.api import ApiProvider, VendorApi
from assayd_chains.providers.command import CommandProvider
from assayd_chains.providers.rules import RulesProvider
from assayd_chains.routes import ROUTERS
from assayd_chains.store import DatabaseChainStore


async def open_wing(settings: Settings, stack: AsyncExitStack) -> ProviderPackage:
    """Open the configured providers, and return the package with them.

    Raises: ConfigError ``repair.key``, if a key can't be read; ``repair.extra``, if a library isn't
    installed.
    """
    return ProviderPackage(settings, await open_providers(settings.repair.providers, stack))


class ProviderPackage:
    """The chains package with open providers. Implements `wiring.wings.ChainWing`."""

    routers: Sequence[APIRouter] = ROUTERS

    def __init__(self, settings: Settings, providers: Mapping[str, Provider]) -> None:
        self._settings = settings
        self._providers = providers

    def join(
        self, access: DatabaseAccess, jobs: DatabaseJobStore, *, clock: Clock, ids: IdSource
    ) -> StoredChainsFactory:
        """Build the components of the package that need only the database."""
        chosen = self._settings.repair
        limits = ChainLimits(
            at_once=chosen.at_once,
            max_attempts=chosen.max_attempts,
            timeout=timedelta(seconds=chosen.timeout_s),
            on_exhausted=tuple(chosen.on_exhausted),
        )
        store = DatabaseChainStore(access)
        requests = RepairRequests(
            store=store, providers=frozenset(self._providers), clock=clock, ids=ids, limits=limits
        )
        return StoredChainsFactory(store, jobs, requests, self._providers, limits)


class StoredChainsFactory:
    """The stored chains before any chain runs. Implements `wiring.wings.ChainParts`."""

    def __init__(
        self,
        store: DatabaseChainStore,
        jobs: DatabaseJobStore,
        requests: RepairRequests,
        providers: Mapping[str, Provider],
        limits: ChainLimits,
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._providers = providers
        self._limits = limits
        self.requests = requests

    async def attachments(self, attempt: Attempt, verdict: Verdict) -> Mapping[str, bytes]:
        """Return the files that describe an attempt's chain, for the attempt's bundle."""
        return await build_attachments(attempt, verdict, store=self._store, jobs=self._jobs)

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
        attempts = DaemonAttempts(
            admission=admission, scheduler=scheduler, jobs=self._jobs, documents=documents
        )
        fitter = AnswerApplier(
            attempts=attempts,
            analyst=basics.analyst,
            kinds=basics.kinds,
            policies=basics.policies.get,
            source_bytes=basics.settings.caps.source_bytes,
            questions=basics.settings.repair.questions,
        )
        loop = ChainRunner(
            attempts=attempts,
            store=self._store,
            fitter=fitter,
            providers=self._providers,
            clock=basics.clock,
            ids=basics.ids,
            timeout=self._limits.timeout,
            driving=basics.driving,
            tracing=basics.tracing,
        )
        chains = Chains(
            loop=loop,
            store=self._store,
            attempts=attempts,
            requests=self.requests,
            kinds=basics.kinds,
            policies=basics.policies.get,
            providers=self._providers,
            webhooks=basics.sender,
            clock=basics.clock,
            ids=basics.ids,
            driving=basics.driving,
            metrics=basics.metrics,
            limits=self._limits,
        )
        return await stack.enter_async_context(chains.running())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vendor:
    key_variable: str
    open: Callable[[ModelAccount], VendorApi]


_VENDORS = {
    anthropic.TYPE: _Vendor(key_variable=anthropic.KEY_VARIABLE, open=anthropic.AnthropicApi),
    openai.TYPE: _Vendor(key_variable=openai.KEY_VARIABLE, open=openai.OpenAIApi),
    gemini.TYPE: _Vendor(key_variable=gemini.KEY_VARIABLE, open=gemini.GeminiApi),
}


async def open_providers(
    wanted: Mapping[str, RepairProvider], stack: AsyncExitStack
) -> Mapping[str, Provider]:
    """Return all providers by name: the configured ones and the one that needs no configuration.

    The keys are removed from the environment, so that processes started later don't inherit them, and from
    this process's initial environment, so that other processes can't read them.

    Raises: ConfigError ``repair.key``, if a key can't be read; ``repair.extra``, if a library isn't
    installed.
    """
    if wanted:
        make_environment_unreadable()
    found: dict[str, Provider] = {rules.NAME: RulesProvider()}
    accounts = {name: _build_account(name, one) for name, one in wanted.items() if one.type in _VENDORS}
    for name, provider in wanted.items():
        if name not in accounts:
            found[name] = CommandProvider(name, provider.argv, provider.environment)
            continue
        account = accounts[name]
        opened = ApiProvider(account, _VENDORS[provider.type].open(account))
        found[name] = await stack.enter_async_context(opened.running())
    for account in accounts.values():
        os.environ.pop(account.key.source.removeprefix("$"), None)
    return found


def _build_account(name: str, wanted: RepairProvider) -> ModelAccount:
    # The vendor's own variable holds a key for the vendor, which no other server may receive.
    usual = _VENDORS[wanted.type].key_variable if wanted.base_url is None else None
    place = KeySource(variable=wanted.key_variable, file=wanted.key_file, usual=usual)
    return ModelAccount(
        name=name,
        type=wanted.type,
        model=wanted.model or "",
        key=find_key(name, place, os.environ),
        base_url=wanted.base_url,
        max_tokens=wanted.max_tokens,
        timeout_s=wanted.timeout_s,
    )
