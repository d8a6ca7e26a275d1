"""What all models behind an API share: one call within its time, and an answer that is told as what it is.

    Request ─Api.ask─> Answer ─> complete: Reply
                              ├> cut off, refused or empty: ProviderError that says so
                              └> no JSON in it: ProviderError ``provider.reply``

What differs, the library and its words, is in a module per vendor.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, assert_never

import structlog

from assayd.errors import ProviderError
from assayd.model.repair import Usage
from assayd.ports.llm import Reply, Request
from assayd.repairs.providers import failures
from assayd.repairs.providers.account import Account
from assayd.repairs.reply import read_reply

log = structlog.get_logger()


class Ending(StrEnum):
    """Why a model stopped."""

    COMPLETE = "complete"
    """It had said what it wanted."""
    CUT_OFF = "cut_off"
    """The answer met its limit of tokens."""
    REFUSED = "refused"
    """The model, or a filter before or behind it, does not want to."""
    EMPTY = "empty"
    """There is no answer, and nothing says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an API gave. `word` is its own for the ending."""

    text: str
    ending: Ending
    word: str = ""
    usage: Usage = Usage()


class Api(Protocol):
    """One vendor's library."""

    async def ask(self, request: Request, *, timeout_s: float) -> Answer:
        """Make one call, without trying again. Raises: ProviderError."""
        ...

    async def close(self) -> None:
        """Let go of all connections."""
        ...


class ApiProvider:
    """Implements `ports.llm.Provider`."""

    def __init__(self, account: Account, api: Api) -> None:
        self.name = account.name
        self._account = account
        self._api = api

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ApiProvider]:
        """Keep connections while the body runs."""
        try:
            yield self
        finally:
            await self._api.close()

    async def fix(self, request: Request, *, timeout_s: float) -> Reply:
        """Ask the model once.

        Raises: ProviderError ``provider.timeout``, ``provider.unreachable``, ``provider.status``,
            ``provider.busy``, ``provider.key``, ``provider.garbled``, ``provider.refused``,
            ``provider.cut_off``, ``provider.empty``, ``provider.reply``.
        """
        account, began = self._account, time.monotonic()
        call_s = min(timeout_s, account.timeout_s)
        try:
            async with asyncio.timeout(call_s):
                answer = await self._api.ask(request, timeout_s=call_s)
        except TimeoutError as problem:
            raise failures.late(account, call_s) from problem
        usage = Usage(
            input_tokens=answer.usage.input_tokens,
            output_tokens=answer.usage.output_tokens,
            took_s=time.monotonic() - began,
        )
        log.info(
            "provider.answered",
            provider=account.name,
            model=account.model,
            ending=answer.ending.value,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            took_s=round(usage.took_s, 3),
        )
        patch = read_reply(_text(answer, account))
        return Reply(code=patch.code, reason=patch.reason, usage=usage)


def _text(answer: Answer, account: Account) -> str:
    """Return a complete answer's text; any other ending is a failure of its own."""
    word = f" ({answer.word[:64]})" if answer.word.isprintable() and answer.word else ""
    match answer.ending:
        case Ending.COMPLETE:
            return answer.text
        case Ending.CUT_OFF:
            remedy = f"allow it more: repair.providers.{account.name}.max_tokens"
            raise ProviderError("provider.cut_off", f"the answer met its limit of tokens{word}; {remedy}")
        case Ending.REFUSED:
            raise ProviderError("provider.refused", f"{account.type} refuses to answer{word}")
        case Ending.EMPTY:
            raise ProviderError("provider.empty", f"{account.type} gave no answer{word}", retryable=True)
        case _ as never:
            assert_never(never)
