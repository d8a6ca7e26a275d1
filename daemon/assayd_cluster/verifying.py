"""Verifies tokens: looks each token up at most once in several seconds, and slows down guessing.

Within `FRESH_S` seconds, every gateway refuses a revoked token and ends the token's running requests.
Guesses are slowed down per address; a valid token from the same address still works.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

import structlog

from assayd.clock import Clock
from assayd.errors import RequestError, StoreError
from assayd_cluster.tokens import MOST_CHARS, PREFIX, DatabaseTokens, TokenRecord, compute_token_digest

log = structlog.get_logger()

FRESH_S = 2.0
"""Seconds for which a token's record is cached."""
REVOKED_S = 3600.0
"""Seconds for which a revoked token is cached."""
KEPT = 4096
USE_S = 60.0
"""Minimum number of seconds between two records of a token's use."""
FAILURES = 10
"""Failures of an address, plus one per `FAILURE_S` seconds, before its tokens are queued for lookup."""
FAILURE_S = 6.0
MOST_IN_TURN = 32
"""Maximum number of tokens in the queue for addresses with too many failures."""


@dataclass(slots=True)
class _CachedToken:
    record: TokenRecord
    until: float
    used_until: float = 0.0


class FailureRateLimiter:
    """A leaky bucket of failed attempts, which allows a maximum burst and a steady rate."""

    def __init__(self, most: int, each_s: float) -> None:
        self._most = most
        self._each_s = each_s
        self._full_until: OrderedDict[str, float] = OrderedDict()

    def is_limited(self, whose: str, now: float) -> bool:
        """Return whether further attempts by a client are refused at this time."""
        return self._full_until.get(whose, now) > now + (self._most - 1) * self._each_s

    def note(self, whose: str, now: float) -> None:
        """Record one failure of a client."""
        self._full_until[whose] = max(self._full_until.pop(whose, now), now) + self._each_s
        if len(self._full_until) > KEPT:
            self._full_until.popitem(last=False)


class TokenVerifier:
    """A verifier of tokens for one gateway, with a cache and rate limits for failures."""

    def __init__(self, tokens: DatabaseTokens, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._known: OrderedDict[str, _CachedToken] = OrderedDict()
        self._failures = FailureRateLimiter(FAILURES, FAILURE_S)
        self._turn = asyncio.Lock()
        self._in_turn = 0
        self._noting: set[asyncio.Task[None]] = set()

    async def verify(self, secret: str, address: str, *, begun: bool = False) -> TokenRecord:
        """Return the record of a valid token.

        `begun` means that the token was valid when its request started.

        Raises:
            RequestError: ``token.refused``, ``token.revoked``, ``token.failures``.
            StoreError: the token can't be looked up.
        """
        now = self._clock.monotonic()
        sha256 = (
            compute_token_digest(secret) if len(secret) <= MOST_CHARS and secret.startswith(PREFIX) else ""
        )
        known = self._known.get(sha256)
        if known is None or known.until <= now:
            seen = begun or known is not None
            slowed = not seen and self._failures.is_limited(address, now)
            record = await (self._find_token_in_queue(sha256) if slowed else self._find_token(sha256))
            if record is None:
                raise self._unknown_token_error(sha256, address, now, slowed=slowed)
            known = self._cache_record(sha256, record, now)
        if known.record.revoked_at is not None:
            log.warning("token.refused", address=address, token_id=known.record.id, why="revoked")
            message = f"the token {known.record.name!r} was revoked; ask for another"
            raise RequestError("token.revoked", message)
        self._schedule_use_record(known, now)
        return known.record

    def forget(self) -> None:
        """Expire all cached tokens, because a token was revoked at this gateway."""
        for known in self._known.values():
            known.until = 0.0

    async def _find_token(self, sha256: str) -> TokenRecord | None:
        return await self._tokens.find(sha256) if sha256 else None

    async def _find_token_in_queue(self, sha256: str) -> TokenRecord | None:
        """Look up a token in a limited queue, so that guesses don't delay the database or valid tokens."""
        if self._in_turn >= MOST_IN_TURN:
            raise _rate_limit_error()
        self._in_turn += 1
        try:
            async with self._turn:
                return await self._find_token(sha256)
        finally:
            self._in_turn -= 1

    def _unknown_token_error(self, sha256: str, address: str, now: float, *, slowed: bool) -> RequestError:
        self._known.pop(sha256, None)
        self._failures.note(address, now)
        if slowed:
            return _rate_limit_error()
        log.warning("token.refused", address=address, why="unknown")
        return RequestError("token.refused", "unknown token; check that its file is complete")

    def _cache_record(self, sha256: str, record: TokenRecord, now: float) -> _CachedToken:
        known = self._known.pop(sha256, None) or _CachedToken(record, 0.0)
        # A revoked token stays revoked.
        known.record, known.until = record, now + (FRESH_S if record.revoked_at is None else REVOKED_S)
        self._known[sha256] = known
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return known

    def _schedule_use_record(self, known: _CachedToken, now: float) -> None:
        if known.used_until > now:
            return
        known.used_until = now + USE_S
        task = asyncio.get_running_loop().create_task(self._record_use(known.record.id))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def _record_use(self, token_id: str) -> None:
        try:
            await self._tokens.record_use([token_id])
        except StoreError as error:  # nothing depends on it
            log.warning("token.use_not_noted", token_id=token_id, problem=error.message)


def _rate_limit_error() -> RequestError:
    message = "too many requests with unknown tokens; try again in a minute"
    return RequestError("token.failures", message, retryable=True)
