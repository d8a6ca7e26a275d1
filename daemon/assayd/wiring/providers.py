"""Builds the configured providers of fixes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from assayd.ports.llm import Provider
from assayd.repairs.providers import anthropic, gemini, openai, rules
from assayd.repairs.providers.account import Account
from assayd.repairs.providers.api import ApiProvider, VendorApi
from assayd.repairs.providers.command import CommandProvider
from assayd.repairs.providers.keys import KeySource, find_key, hide_environment
from assayd.repairs.providers.rules import RulesProvider
from assayd.settings import RepairProvider


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vendor:
    key_variable: str
    open: Callable[[Account], VendorApi]


_VENDORS = {
    anthropic.TYPE: _Vendor(key_variable=anthropic.KEY_VARIABLE, open=anthropic.AnthropicApi),
    openai.TYPE: _Vendor(key_variable=openai.KEY_VARIABLE, open=openai.OpenAIApi),
    gemini.TYPE: _Vendor(key_variable=gemini.KEY_VARIABLE, open=gemini.GeminiApi),
}


async def open_providers(
    wanted: Mapping[str, RepairProvider], stack: AsyncExitStack
) -> Mapping[str, Provider]:
    """Return the configured providers by name, and the one that needs no configuration.

    Keys are taken out of the environment, so that no process that is started later has them, and none can
    read with what this one was started.
    Raises: ConfigError ``repair.key``, ``repair.extra``.
    """
    if wanted:
        hide_environment()
    found: dict[str, Provider] = {rules.NAME: RulesProvider()}
    accounts = {name: _account(name, one) for name, one in wanted.items() if one.type in _VENDORS}
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


def _account(name: str, wanted: RepairProvider) -> Account:
    # The vendor's own variable holds a key for the vendor: no other server is sent it.
    usual = _VENDORS[wanted.type].key_variable if wanted.base_url is None else None
    place = KeySource(variable=wanted.key_variable, file=wanted.key_file, usual=usual)
    return Account(
        name=name,
        type=wanted.type,
        model=wanted.model or "",
        key=find_key(name, place, os.environ),
        base_url=wanted.base_url,
        max_tokens=wanted.max_tokens,
        timeout_s=wanted.timeout_s,
    )
