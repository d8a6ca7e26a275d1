"""Provides the code that all model APIs share: a call with a timeout, and the evaluation of the answer.

    Request ─ask─> bytes ─read─> complete: Reply
                               ├> cut off, refused or empty: ProviderError with that reason
                               └> no JSON in it: ProviderError ``provider.reply``

One module for each vendor adapts the vendor's library and its terms.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Protocol, assert_never

import structlog

from assayd.errors import ProviderError
from assayd_chains.provider import FixRequest, Reply
from assayd_chains.providers import answers
from assayd_chains.providers.answers import ModelAccount, StopReason
from assayd_chains.providers.reading import AnswerContent, parse_in_subprocess

log = structlog.get_logger()


class VendorApi(Protocol):
    """The interface to the library of a single vendor."""

    async def ask(self, request: FixRequest, *, timeout_s: float) -> bytes:
        """Call the API once without retries, and return the response body.

        Raises: ProviderError, if the call fails or takes longer than `timeout_s` seconds.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class ApiProvider:
    """A provider that calls a model through its API. Implements `provider.Provider`."""

    def __init__(self, account: ModelAccount, api: VendorApi) -> None:
        self.name = account.name
        self._account = account
        self._api = api

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ApiProvider]:
        """Keep the connections open while the body runs."""
        try:
            yield self
        finally:
            await self._api.close()

    async def fix(self, request: FixRequest, *, timeout_s: float) -> Reply:
        """Call the model once, and parse its answer in a separate process.

        Every failure is raised as a ProviderError.

        Raises: ProviderError ``provider.timeout``, ``provider.unreachable``, ``provider.status``,
            ``provider.busy``, ``provider.key``, ``provider.garbled``, ``provider.refused``,
            ``provider.cut_off``, ``provider.empty``, ``provider.reply``, ``provider.broken``.
        """
        account, began = self._account, time.monotonic()
        call_s, passage = min(timeout_s, account.timeout_s), request.passage
        try:
            async with asyncio.timeout(call_s):
                answer = await self._api.ask(request, timeout_s=call_s)
                found = await parse_in_subprocess(account.type, answer, passage.language, passage.beginning)
        except TimeoutError as problem:
            raise answers.timeout_error(account, call_s) from problem
        except ProviderError:
            raise
        except Exception as problem:
            # The vendor's library received an unexpected answer.
            raise answers.build_broken_library_error(account, problem) from problem
        usage = replace(found.usage, took_s=time.monotonic() - began)
        log.info(
            "provider.answered",
            provider=account.name,
            model=account.model,
            ending=found.ending.value,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            took_s=round(usage.took_s, 3),
        )
        _require_complete_answer(found, account)
        return found.build_reply(usage)


def _require_complete_answer(found: AnswerContent, account: ModelAccount) -> None:
    """Ensure that an answer is complete. Raises: ProviderError, with a separate code for each ending."""
    word = f" ({found.word})" if found.word.isprintable() and found.word else ""
    match found.ending:
        case StopReason.COMPLETE:
            return
        case StopReason.CUT_OFF:
            remedy = f"raise repair.providers.{account.name}.max_tokens"
            raise ProviderError("provider.cut_off", f"the answer reached its token limit{word}; {remedy}")
        case StopReason.REFUSED:
            raise ProviderError("provider.refused", f"{account.type} refuses to answer{word}")
        case StopReason.EMPTY:
            raise ProviderError("provider.empty", f"{account.type} gave no answer{word}", retryable=True)
        case _ as never:
            assert_never(never)
