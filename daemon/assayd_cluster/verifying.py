"""Whether a token is good now: looked up at most every few seconds, and guesses are slowed down.

A revoked token is refused within `FRESH_S` by every gateway, and requests of it that are under way end.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

import structlog

from assayd.errors import RequestError, StoreError
from assayd.ports.clock import Clock
from assayd_cluster.tokens import MOST_CHARS, PREFIX, DatabaseTokens, TokenRecord, digest

log = structlog.get_logger()

FRESH_S = 2.0
"""How long an answer of the database counts."""
KEPT = 4096
USE_S = 60.0
"""How often the use of a token is written down."""
FAILURES = 10
"""Of one address in a row; then one more every `FAILURE_S`."""
FAILURE_S = 6.0
ALL_FAILURES = 200
"""Of all addresses together in a row; then one more every `ALL_FAILURE_S`."""
ALL_FAILURE_S = 0.05


@dataclass(slots=True)
class _Known:
    record: TokenRecord
    until: float
    used_until: float = 0.0


class Failures:
    """Failed tries as a bucket that leaks: how many in a row, and how soon there is one more."""

    def __init__(self, most: int, each_s: float) -> None:
        self._most = most
        self._each_s = each_s
        self._full_until: OrderedDict[str, float] = OrderedDict()

    def too_many(self, whose: str, now: float) -> bool:
        """Return whether no further try is allowed now."""
        return self._full_until.get(whose, now) > now + (self._most - 1) * self._each_s

    def note(self, whose: str, now: float) -> None:
        """Count one."""
        self._full_until[whose] = max(self._full_until.pop(whose, now), now) + self._each_s
        if len(self._full_until) > KEPT:
            self._full_until.popitem(last=False)


class TokenVerifier:
    """Answers for tokens on behalf of one gateway."""

    def __init__(self, tokens: DatabaseTokens, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._by_address = Failures(FAILURES, FAILURE_S)
        self._by_all = Failures(ALL_FAILURES, ALL_FAILURE_S)
        self._noting: set[asyncio.Task[None]] = set()

    async def verify(self, secret: str, address: str) -> TokenRecord:
        """Return whose a token is.

        Raises:
            RequestError: ``token.refused``, ``token.revoked``, ``token.failures``.
            StoreError: it cannot be looked up.
        """
        now = self._clock.monotonic()
        sha256 = digest(secret) if len(secret) <= MOST_CHARS and secret.startswith(PREFIX) else ""
        known = self._known.get(sha256)
        if known is None:  # those who were good before are never held up by others' guesses
            self._require_few_failures(address, now)
        elif known.until > now:
            self._note_use(known, now)
            return known.record
        record = await self._tokens.find(sha256) if sha256 else None
        if record is None or record.revoked_at is not None:
            self._known.pop(sha256, None)
            raise self._refusal(record, address, now)
        known = self._remember(sha256, record, now)
        self._note_use(known, now)
        return record

    def forget(self) -> None:
        """Have every token looked up anew: one was revoked here."""
        for known in self._known.values():
            known.until = 0.0

    def _require_few_failures(self, address: str, now: float) -> None:
        if self._by_address.too_many(address, now) or self._by_all.too_many("", now):
            message = "too many requests with a token that is not known; try again in a minute"
            raise RequestError("token.failures", message, retryable=True)

    def _refusal(self, record: TokenRecord | None, address: str, now: float) -> RequestError:
        self._by_address.note(address, now)
        self._by_all.note("", now)
        if record is not None:
            log.warning("token.refused", address=address, token_id=record.id, why="revoked")
            return RequestError("token.revoked", f"the token {record.name!r} was revoked; ask for another")
        log.warning("token.refused", address=address, why="unknown")
        return RequestError("token.refused", "the token is not known here; look whether its file is whole")

    def _remember(self, sha256: str, record: TokenRecord, now: float) -> _Known:
        known = self._known.pop(sha256, None) or _Known(record, 0.0)
        known.record, known.until = record, now + FRESH_S
        self._known[sha256] = known
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return known

    def _note_use(self, known: _Known, now: float) -> None:
        if known.used_until > now:
            return
        known.used_until = now + USE_S
        task = asyncio.get_running_loop().create_task(self._write_use(known.record.id))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def _write_use(self, token_id: str) -> None:
        try:
            await self._tokens.note_use([token_id])
        except StoreError as error:  # nothing depends on it
            log.warning("token.use_not_noted", token_id=token_id, problem=error.message)
