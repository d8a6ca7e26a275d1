"""Authorizes every request to a gateway by its token, or on the Unix socket by the user of the process.

A request outside its token's scope never reaches a route; revoking a token ends its running requests. No
other part of the gateway sees the token.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assayd.api.errors import build_error_response
from assayd.api.peer import NOBODY, Caller
from assayd.errors import AssaydError, RequestError
from assayd.model.submission import Peer
from assayd_cluster.tokens import FRESH_S, TokenRecord, TokenVerifier
from assayd_cluster.tokens import Scope as TokenScope

log = structlog.get_logger()

NODES_PATH = "/v1/nodes"
OPEN = frozenset({"/healthz"})
"""Paths that don't require a token, for load balancers."""
METRICS_SCOPE_PATHS = frozenset({"/metrics", "/v1/doctor", "/readyz", "/healthz"})
"""Paths that the scope `metrics` allows."""
READING = frozenset({"GET", "HEAD"})
POLICY_VIOLATION = 1008
"""The WebSocket close code for a policy violation (RFC 6455)."""
STATE = "token"
"""The key of the token's record in a request's state."""
SHOWN = "token_shown"
"""The key of the callback in a connection's state that is called once a valid token has been received."""
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="assayd"'}


@dataclass(eq=False, slots=True)
class _ActiveRequest:
    """A running request that a token authorized, and the function that ends this request."""

    secret: str
    address: str
    end: asyncio.Timeout
    refusal: AssaydError | None = None


class TokenGate:
    """An ASGI middleware that admits only requests that their tokens allow.

    Requests without a token are admitted only from users of the Unix socket or for public paths.
    """

    def __init__(
        self,
        app: ASGIApp,
        verifier: TokenVerifier,
        *,
        max_per_tenant: int = 192,
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._refused = refused
        self._app = app
        self._verifier = verifier
        self._most_of_one = max_per_tenant
        self._active_requests: set[_ActiveRequest] = set()
        self._of_tenant: Counter[int] = Counter()
        self._checking: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request if it is authorized. Otherwise, respond with status 401, 403 or 429."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # the API has no web sockets, and the gate refuses them
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        answer = _ResponseTracker(send)
        try:
            await self._authorize_and_serve(scope, receive, answer)
        except AssaydError as error:
            self._refused(error.code)
            if answer.started:  # the server closes the connection of an unfinished answer
                log.warning("request.ended", code=error.code)
                return
            challenge = CHALLENGE if error.code in {"token.missing", "token.refused", "token.revoked"} else {}
            headers = {**challenge, "Connection": "close"} if challenge else {}
            await build_error_response(error, headers=headers)(scope, receive, send)

    async def _authorize_and_serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        secret = pop_token(scope)
        if secret is None:
            if isinstance(scope["state"].get("caller"), Caller) or scope["path"] in OPEN:
                await self._app(_mark_anonymous(scope), receive, send)
                return
            message = "this gateway needs a token as `Authorization: Bearer …`; an operator creates one"
            raise RequestError("token.missing", f"{message} with `assay token create`")
        address = build_client_address_key(scope)
        record = await self._verifier.verify(secret, address)
        if (shown := scope["state"].get(SHOWN)) is not None:
            shown(is_operator=record.has_any_scope(TokenScope.OPERATE))
        require_scope(record, scope["method"], scope["path"])
        scope["state"] |= {"caller": _build_caller(record), STATE: record}
        if self._of_tenant[record.tenant_id] >= self._most_of_one and record.node is None:
            message = f"{self._most_of_one} requests of tenant {record.tenant!r} are running; wait for some"
            raise RequestError("quota.full", message, retryable=True)
        await self._serve_until_revoked(
            scope, receive, send, record, _ActiveRequest(secret, address, asyncio.timeout(None))
        )

    async def _serve_until_revoked(
        self, scope: Scope, receive: Receive, send: Send, record: TokenRecord, under: _ActiveRequest
    ) -> None:
        """Process a request, and end it if its token is revoked.

        Raises: RequestError ``token.revoked`` or another refusal of the token during the request.
        """
        self._active_requests.add(under)
        self._of_tenant[record.tenant_id] += 1
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(
                self._check_active_tokens(), name="token-check"
            )
        try:
            async with under.end:
                await self._app(scope, receive, send)
        except TimeoutError:
            if under.refusal is None:
                raise
            raise under.refusal from None
        finally:
            self._active_requests.discard(under)
            self._of_tenant[record.tenant_id] -= 1
            if not self._of_tenant[record.tenant_id]:
                del self._of_tenant[record.tenant_id]

    async def _check_active_tokens(self) -> None:
        """Check the tokens of running requests repeatedly, until all requests have ended."""
        try:
            while self._active_requests:
                await asyncio.sleep(FRESH_S)
                for under in list(self._active_requests):
                    await self._check_token(under)
        finally:
            self._checking = None

    async def _check_token(self, under: _ActiveRequest) -> None:
        try:
            await self._verifier.verify(under.secret, under.address, begun=True)
        except RequestError as refusal:
            if under in self._active_requests:
                under.refusal = refusal
                under.end.reschedule(asyncio.get_running_loop().time())
        except AssaydError:
            return  # the database doesn't answer: admitted requests continue


class _ResponseTracker:
    """A wrapper of `send` that records whether the response has started."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        self.started = True
        await self._send(message)


def pop_token(scope: Scope) -> str | None:
    """Remove and return the token in a request's headers, or return None if the request has no token.

    Raises: RequestError ``token.refused``, if the request has two tokens or a scheme other than ``Bearer``.
    """
    given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    if not given:
        return None
    scope["headers"] = [pair for pair in scope["headers"] if pair[0].lower() != b"authorization"]
    kind, _, secret = given[0].partition(b" ")
    if len(given) > 1 or kind.lower() != b"bearer" or not secret.isascii() or not secret:
        raise RequestError("token.refused", "send one Authorization header: `Bearer` and a token")
    return str(secret, "ascii")


def require_scope(record: TokenRecord, method: str, path: str) -> None:
    """Raise RequestError ``token.scope`` unless the token's scopes allow the request."""
    if record.node is not None:
        own = f"{NODES_PATH}/{record.node}"
        allowed = path == own or path.startswith(f"{own}/")
        what = f"belongs to node {record.node!r}, and is valid only for paths below {own}"
    elif is_node_route(path) and not record.has_any_scope(TokenScope.OPERATE):
        allowed, what = False, "has no access to nodes"
    else:
        reading = method in READING
        allowed = record.has_any_scope(TokenScope.SUBMIT, TokenScope.OPERATE)
        allowed = allowed or (reading and record.has_any_scope(TokenScope.READ))
        allowed = allowed or (
            reading and path in METRICS_SCOPE_PATHS and record.has_any_scope(TokenScope.METRICS)
        )
        what = "is read-only" if record.has_any_scope(TokenScope.READ) else "is for metrics and health"
    if not allowed:
        raise RequestError("token.scope", f"the token {record.name!r} {what}")


def is_node_route(path: str) -> bool:
    """Return whether a path is below `NODES`, the prefix of the routes for nodes."""
    return path == NODES_PATH or path.startswith(f"{NODES_PATH}/")


def require_node_token(request: Request, name: str) -> None:
    """Raise RequestError ``token.scope`` unless the request has the token of the node with this name."""
    record = getattr(request.state, STATE, None)
    if not isinstance(record, TokenRecord) or record.node is None or record.node != name:
        raise RequestError("token.scope", f"only node {name[:64]!r} may do this, with its own token")


def build_client_address_key(scope: Scope) -> str:
    """Return the key for counting failures: the client's address, or the user of the Unix socket."""
    caller = scope["state"].get("caller")
    if isinstance(caller, Caller):
        return f"uid {caller.peer.uid}"
    return build_rate_limit_key((scope.get("client") or ("",))[0])


def build_rate_limit_key(text: str) -> str:
    """Return the rate-limit key of an address: the IPv4 address, or the IPv6 address's /64 network.

    Return ``unknown`` for any other text.
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return f"{IPv6Address(int(address) >> 64 << 64)}/64"
    return str(getattr(address, "ipv4_mapped", None) or address)


def _build_caller(record: TokenRecord) -> Caller:
    number = record.tenant_id
    return Caller(
        peer=Peer(uid=number, gid=number, pid=0),
        groups=frozenset(),
        remote=True,
        operator=record.has_any_scope(TokenScope.OPERATE),
        monitor=record.has_any_scope(TokenScope.METRICS),
        token=record.id,
        is_node=record.node is not None,
    )


def _mark_anonymous(scope: Scope) -> Scope:
    """Mark a public request as anonymous, so that the inner check of peers accepts it."""
    if not isinstance(scope["state"].get("caller"), Caller):
        nobody = Peer(uid=NOBODY, gid=NOBODY, pid=0)
        scope["state"]["caller"] = Caller(peer=nobody, groups=frozenset(), remote=True)
    return scope
