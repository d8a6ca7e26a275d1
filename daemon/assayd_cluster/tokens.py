"""Defines tokens and their tenants (the format, the permissions and the tables), and verifies tokens.

A token is shown only when it is created; the database stores only its digest. The caller acts as the
token's tenant, whose number is used like a user id, so that the same code as on a single host decides about
ownership.

Each token is looked up at most once in several seconds. Within `FRESH_S` seconds, every gateway refuses a
revoked token and ends the token's running requests. Guesses are slowed down per address; a valid token from
the same address still works.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

import structlog
from sqlalchemy import Connection, RowMapping, func, select, update

from assayd.clock import Clock, IdSource
from assayd.errors import RequestError, StoreError
from assayd.store.access import DatabaseAccess
from assayd.store.tables import from_micros, to_micros
from assayd_cluster.tables import tenants, tokens

log = structlog.get_logger()


PREFIX = "assay_"
"""The prefix of tokens, by which scanners for secrets recognize a token that was left in a file."""
TOKEN_BYTES = 32
MOST_CHARS = 128
"""Maximum length of a token; longer ones are rejected without a lookup."""
FIRST_TENANT = 2**32
"""The smallest number of a tenant, which is larger than any user id of a host."""
NODES_TENANT = "nodes"
"""The owner of all tokens of nodes, and of no other tokens."""
MAX_NAME_TRIES = 5

FRESH_S = 2.0
"""Seconds for which a token's record is cached."""
REVOKED_TTL_S = 3600.0
"""Seconds for which a revoked token is cached."""
KEPT = 4096
USE_INTERVAL_S = 60.0
"""Minimum number of seconds between two records of a token's use."""
FAILURES = 10
"""Failures of an address, plus one per `FAILURE_LEAK_S` seconds, before its tokens are queued for lookup."""
FAILURE_LEAK_S = 6.0
MAX_QUEUED_TOKENS = 32
"""Maximum number of tokens in the queue for addresses with too many failures."""
_SELECT_TOKEN = select(tokens, tenants.c.name.label("tenant")).join(
    tenants, tenants.c.id == tokens.c.tenant_id
)


class Scope(Enum):
    """A permission of a token, as stored and shown by name."""

    METRICS = "metrics"
    """Read metrics and health checks, but no attempts."""
    READ = "read"
    """Read the tenant's attempts."""
    SUBMIT = "submit"
    """Read the tenant's data, and submit work for the tenant."""
    OPERATE = "operate"
    """Perform all operations of an operator: read all data, run checks, drain nodes, create tokens."""
    NODE = "node"
    """Fetch runs for one node and write their results, and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """A stored token, without its secret.

    Attributes:
        tenant_id: the number of the tenant, which is used like a user id.
        node: the node to which the token is bound; None unless its scope is `node`.
    """

    id: str
    tenant_id: int
    tenant: str
    name: str
    scopes: frozenset[Scope]
    node: str | None
    created_at: datetime
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def has_any_scope(self, *scopes: Scope) -> bool:
        """Return whether the token has one of these scopes."""
        return not self.scopes.isdisjoint(scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTerms:
    """The request for a new token. Raises: RequestError ``invalid``, if fields contradict each other."""

    name: str
    tenant: str
    scopes: frozenset[Scope]
    node: str | None = None

    def __post_init__(self) -> None:
        is_node = Scope.NODE in self.scopes
        if is_node != (self.node is not None) or (is_node and len(self.scopes) > 1):
            message = "a node's token must have only the scope `node`, and must name its node"
            raise RequestError("invalid", message, field="scopes")
        if is_node != (self.tenant == NODES_TENANT):
            message = f"the tenant {NODES_TENANT!r} is for node tokens only"
            raise RequestError("invalid", message, field="tenant")


def generate_secret() -> str:
    """Return a new secret with 256 random bits."""
    return PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def compute_token_digest(secret: str) -> str:
    """Return a token's stored digest. One round of SHA-256 is enough, because tokens are random."""
    return hashlib.sha256(secret.encode()).hexdigest()


class DatabaseTokens:
    """A store of tokens in the gateways' database."""

    def __init__(self, access: DatabaseAccess, clock: Clock, ids: IdSource) -> None:
        self._access = access
        self._clock = clock
        self._ids = ids

    async def create(self, terms: TokenTerms) -> tuple[TokenRecord, str]:
        """Create a token, and its tenant if necessary. Return the record and the unstored secret."""
        tenant_id = await self._get_or_create_tenant(terms.tenant)
        secret, at = generate_secret(), self._clock.now()
        record = TokenRecord(
            id=self._ids.new(),
            tenant_id=tenant_id,
            tenant=terms.tenant,
            name=terms.name,
            scopes=terms.scopes,
            node=terms.node,
            created_at=at,
        )
        values = {
            "id": record.id,
            "tenant_id": tenant_id,
            "sha256": compute_token_digest(secret),
            "scopes": ",".join(sorted(scope.value for scope in terms.scopes)),
            "node": terms.node,
            "name": terms.name,
            "created_at": to_micros(at),
        }
        # May be applied twice, if it is unknown whether the server has committed it.
        made = self._access.build_insert_or_ignore(tokens)
        await self._access.write(lambda connection: connection.execute(made, values).close())
        return record, secret

    async def list(self) -> list[TokenRecord]:
        """Return all tokens, starting with the newest."""
        wanted = _SELECT_TOKEN.order_by(tokens.c.id.desc())
        rows = await self._access.read(lambda connection: connection.execute(wanted).mappings().all())
        return [_build_record(row) for row in rows]

    async def find(self, sha256: str) -> TokenRecord | None:
        """Return the token with this digest, even if it is revoked, or None if it doesn't exist."""
        wanted = _SELECT_TOKEN.where(tokens.c.sha256 == sha256)
        row = await self._access.read(lambda connection: connection.execute(wanted).mappings().first())
        # The index may compare in any way; the decisive comparison takes constant time.
        same = row is not None and secrets.compare_digest(str(row["sha256"]), sha256)
        return _build_record(row) if row is not None and same else None

    async def revoke(self, token_id: str) -> TokenRecord | None:
        """Revoke a token, or do nothing if it is already revoked. Return None if it doesn't exist."""
        at = to_micros(self._clock.now())

        def apply(connection: Connection) -> RowMapping | None:
            ended = update(tokens).where(tokens.c.id == token_id, tokens.c.revoked_at.is_(None))
            connection.execute(ended.values(revoked_at=at))
            return connection.execute(_SELECT_TOKEN.where(tokens.c.id == token_id)).mappings().first()

        row = await self._access.write(apply)
        return None if row is None else _build_record(row)

    async def record_use(self, token_ids: Collection[str]) -> None:
        """Record that these tokens were just used. A crash can lose this record."""
        at = to_micros(self._clock.now())
        used = update(tokens).where(tokens.c.id.in_(token_ids)).values(last_used_at=at)
        await self._access.write(lambda connection: connection.execute(used), durable=False)

    async def _get_or_create_tenant(self, name: str) -> int:
        """Return the number of a tenant, which is created if it doesn't exist. Retry after a conflict.

        Raises: StoreError ``store.busy``, after `TRIES` conflicts.
        """
        for _ in range(MAX_NAME_TRIES):
            found = await self._access.write(lambda connection: self._try_create_tenant(connection, name))
            if found is not None:
                return found
        raise StoreError("store.busy", f"tenant {name!r} can't be created; try again", retryable=True)

    def _try_create_tenant(self, connection: Connection, name: str) -> int | None:
        wanted = select(tenants.c.id).where(tenants.c.name == name)
        if (found := connection.execute(wanted).scalar()) is not None:
            return int(found)
        last = connection.execute(select(func.max(tenants.c.id))).scalar() or FIRST_TENANT - 1
        values = {"id": last + 1, "name": name, "created_at": to_micros(self._clock.now())}
        connection.execute(self._access.build_insert_or_ignore(tenants), values)
        made = connection.execute(wanted).scalar()
        return None if made is None else int(made)


def parse_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Parse scopes from their names. Raises: RequestError ``invalid``, if a name is unknown."""
    try:
        return frozenset(Scope(name) for name in names)
    except ValueError as error:
        known = ", ".join(scope.value for scope in Scope)
        raise RequestError("invalid", f"a scope must be one of {known}", field="scopes") from error


def _parse_known_scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes of a stored token, except those that only newer gateways know."""
    known = {scope.value for scope in Scope}
    return frozenset(Scope(name) for name in names if name in known)


def _build_record(row: RowMapping) -> TokenRecord:
    return TokenRecord(
        id=row["id"],
        tenant_id=row["tenant_id"],
        tenant=row["tenant"],
        name=row["name"],
        scopes=_parse_known_scopes(row["scopes"].split(",")),
        node=row["node"],
        created_at=from_micros(row["created_at"]),
        revoked_at=_to_datetime(row["revoked_at"]),
        last_used_at=_to_datetime(row["last_used_at"]),
    )


def _to_datetime(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)


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
        self._failures = FailureRateLimiter(FAILURES, FAILURE_LEAK_S)
        self._turn = asyncio.Lock()
        self._in_turn = 0
        self._noting: set[asyncio.Task[None]] = set()

    async def verify(self, secret: str, address: str, *, begun: bool = False) -> TokenRecord:
        """Return the record of a valid token.

        `begun` means that the token was valid when its request started.

        Raises:
            RequestError: ``token.refused``, for an unknown token; ``token.revoked``; ``token.failures``, if
                the address has had too many failures.
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
                raise self._build_unknown_token_error(sha256, address, now, slowed=slowed)
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
        """Look up a token in a limited queue, so that guesses don't delay the database or valid tokens.

        Return None for an unknown token.

        Raises: RequestError ``token.failures``, if the queue is full.
        """
        if self._in_turn >= MAX_QUEUED_TOKENS:
            raise _build_rate_limit_error()
        self._in_turn += 1
        try:
            async with self._turn:
                return await self._find_token(sha256)
        finally:
            self._in_turn -= 1

    def _build_unknown_token_error(
        self, sha256: str, address: str, now: float, *, slowed: bool
    ) -> RequestError:
        self._known.pop(sha256, None)
        self._failures.note(address, now)
        if slowed:
            return _build_rate_limit_error()
        log.warning("token.refused", address=address, why="unknown")
        return RequestError("token.refused", "unknown token; check that its file is complete")

    def _cache_record(self, sha256: str, record: TokenRecord, now: float) -> _CachedToken:
        known = self._known.pop(sha256, None) or _CachedToken(record, 0.0)
        # A revoked token stays revoked.
        known.record, known.until = record, now + (FRESH_S if record.revoked_at is None else REVOKED_TTL_S)
        self._known[sha256] = known
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return known

    def _schedule_use_record(self, known: _CachedToken, now: float) -> None:
        if known.used_until > now:
            return
        known.used_until = now + USE_INTERVAL_S
        task = asyncio.get_running_loop().create_task(self._record_use(known.record.id))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def _record_use(self, token_id: str) -> None:
        try:
            await self._tokens.record_use([token_id])
        except StoreError as error:  # nothing depends on it
            log.warning("token.use_not_noted", token_id=token_id, problem=error.message)


def _build_rate_limit_error() -> RequestError:
    message = "too many requests with unknown tokens; try again in a minute"
    return RequestError("token.failures", message, retryable=True)
