"""The relay: a session for each attempt with an allowlist; HTTP requests and TLS tunnels.

Plain HTTP: each request is checked separately and sent on a separate connection. The request is rebuilt from
h11's events rather than copied, so that no second request can be hidden in it. Headers for the proxy aren't
forwarded. Redirects are returned as responses: if the guest follows a redirect, it sends a new request.

CONNECT: an uninspected TLS tunnel to a listed host, which is opened once the client names that host. This
module reads the server name in the client's ClientHello, with pure functions and with limits. Only the first
handshake message is read, which must be a ClientHello in few records. Data in which parsers could find
different names (a second extension, two names, bytes after the end) is rejected as malformed.

Source: RFC 8446 (4.1.2, 5.1), RFC 6066 (3), RFC 9849 (encrypted ClientHello).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count

import h11

from assayd.aio import run_concurrently
from assayd.clock import Clock
from assayd.egress.access import (
    LOOK_UPS,
    Access,
    EgressContext,
    EgressLedger,
    Upstream,
    limit_idle_time,
    record_access,
)
from assayd.egress.decision import (
    HTTP_PORT,
    RULE_HEADER,
    AccessNotServedError,
    Public,
    Target,
    build_rule_violation_error,
    failed,
    is_public,
    parse_target,
)
from assayd.egress.guest import GuestConnection, HttpReader
from assayd.egress.resolver import ResolveName, Resolver, resolve_blocking
from assayd.egress.turns import ThresholdSemaphore, TurnScheduler
from assayd.findings.network_rules import NetworkRule, NetworkTrouble
from assayd.metrics import Metrics
from assayd.model.policy import NetworkPolicy
from assayd.model.run import AccessProtocol
from assayd.ports.egress import EgressLimits, GuestStream

Pairs = list[tuple[bytes, bytes]]

_HOP_BY_HOP_HEADERS = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection",
        b"te", b"trailer", b"upgrade",
    }
)  # fmt: skip
_FRAMING_HEADERS = frozenset({b"content-length", b"transfer-encoding"})
_REQUEST_HEADERS_DROPPED = _HOP_BY_HOP_HEADERS | {b"host", b"expect"}
_RESPONSE_HEADERS_DROPPED = _HOP_BY_HOP_HEADERS | {RULE_HEADER.lower()}


async def serve_request(guest: GuestConnection, access: Access, request: h11.Request) -> bool:
    """Serve a plain HTTP request. Return whether another request may follow on this connection.

    Raises: AccessNotServedError, if the access is denied or fails.
    """
    _refuse_ambiguous_length(request)
    hosts = [value for name, value in request.headers if name == b"host"]
    access.add_facts(named=hosts[0].decode("latin-1") if len(hosts) == 1 else "")
    async with access.connect() as upstream:
        host = h11.Connection(h11.CLIENT)
        await upstream.send(_encode_event(host, _build_host_request(request, access.target())))
        async with limit_idle_time(guest.limits.idle_s) as moved:
            await _exchange(_Exchange(guest=guest, upstream=upstream, host=host, moved=moved))
    return guest.prepare_next_request()


class _Exchange:
    """One exchange in progress: a request and its response."""

    def __init__(
        self, *, guest: GuestConnection, upstream: Upstream, host: h11.Connection, moved: Callable[[], None]
    ) -> None:
        self.guest = guest
        self.upstream = upstream
        self.host = host
        self.moved = moved
        self._answer = HttpReader(host)

    async def answer(self) -> AsyncIterator[list[h11.Event]]:
        """Yield the host's response in groups of events, until the response ends.

        Raises: AccessNotServedError, if the response is malformed or the connection breaks.
        """
        while True:
            try:
                events = self._answer.step()
            except h11.RemoteProtocolError as problem:
                raise failed(NetworkTrouble.BROKEN_OFF) from problem
            self.upstream.entry.charge_excess_cost(self._answer.take_excess_cost())
            if events:
                self.moved()
                yield events
            if isinstance(events[-1] if events else None, h11.EndOfMessage):
                return
            if self._answer.busy:
                await self.upstream.turn()
            elif not events:
                self._answer.feed(await self.upstream.read())


class _ResponseComplete(Exception):
    """An exception raised when the response is complete, even if the request isn't."""


async def _exchange(exchange: _Exchange) -> None:
    """Send the request's body and receive the response concurrently.

    If the response completes first, the rest of the request's body isn't sent.
    """
    with suppress(_ResponseComplete):
        await run_concurrently(_forward_response(exchange), _send_body(exchange))


async def _send_body(exchange: _Exchange) -> None:
    async for piece in exchange.guest.body():
        await _send_upstream(exchange, h11.Data(data=piece))
    await _send_upstream(exchange, h11.EndOfMessage())


async def _send_upstream(exchange: _Exchange, event: h11.Data | h11.EndOfMessage) -> None:
    try:
        await exchange.upstream.send(_encode_event(exchange.host, event))
    except AccessNotServedError as end:
        # A host can respond and close before it has read the whole body; its response counts.
        if end.why is not NetworkTrouble.BROKEN_OFF:
            raise
    exchange.moved()


async def _forward_response(exchange: _Exchange) -> None:
    async for events in exchange.answer():
        if passed := [part for event in events if (part := _select_guest_event(event)) is not None]:
            await exchange.guest.send(*passed)
    raise _ResponseComplete


def _select_guest_event(event: h11.Event) -> h11.Event | None:
    """Return the event to forward to the guest, or None for events that concern only host and relay.

    Raises: AccessNotServedError, if the connection ended before the response was complete.
    """
    match event:
        case h11.Response():
            headers = _filter_headers(event.headers, _RESPONSE_HEADERS_DROPPED)
            return h11.Response(status_code=event.status_code, headers=headers, reason=event.reason)
        case h11.Data():
            return event
        case h11.EndOfMessage():
            return h11.EndOfMessage()
        case h11.InformationalResponse():
            return None
        case _:
            raise failed(NetworkTrouble.BROKEN_OFF)


def _build_host_request(request: h11.Request, target: Target) -> h11.Request:
    """Return the request to send to the host, addressed only by its target."""
    place = target.host if target.port == HTTP_PORT else f"{target.host}:{target.port}"
    headers = [
        (b"Host", place.encode()),
        *_filter_headers(request.headers, _REQUEST_HEADERS_DROPPED),
        (b"Connection", b"close"),
    ]
    return h11.Request(method=request.method, target=target.origin, headers=headers)


def _filter_headers(headers: Iterable[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> Pairs:
    """Return the headers to forward, without `dropped` and without the headers that Connection names."""
    pairs = list(headers)
    named = b",".join(value for name, value in pairs if name == b"connection").lower().split(b",")
    gone = dropped | {name.strip() for name in named} - _FRAMING_HEADERS
    return [(name, value) for name, value in pairs if name not in gone]


def _encode_event(host: h11.Connection, event: h11.Event) -> bytes:
    try:
        return host.send(event) or b""
    except h11.LocalProtocolError as problem:
        raise build_rule_violation_error(NetworkRule.HTTP_MALFORMED) from problem


def _refuse_ambiguous_length(request: h11.Request) -> None:
    """Check that a request's end is unambiguous. Two different lengths are already rejected by h11.

    Raises: AccessNotServedError, if the request has both a length and chunks, or chunks in HTTP/1.0.
    """
    names = [name for name, _ in request.headers]
    by_chunks = b"transfer-encoding" in names
    if by_chunks and (b"content-length" in names or request.http_version < b"1.1"):
        raise build_rule_violation_error(NetworkRule.FRAMING_AMBIGUOUS)


MAX_BYTES = 16 * 1024
"""Maximum bytes of a ClientHello with its record headers.

The largest today, with post-quantum keys, are below 4 KiB.
"""
MAX_HELLO_RECORDS = 8

_HANDSHAKE, _CLIENT_HELLO, _TLS_MAJOR = 22, 1, 3
_RECORD_HEADER_BYTES = 5
_SERVER_NAME, _HOST_NAME = 0, 0
_ECH_EXTENSION_TYPES = frozenset({0xFE0D, 0xFFCE})
"""The types of the TLS extension encrypted_client_hello, and of its drafts' encrypted_server_name."""


class ClientHelloError(ValueError):
    """An exception raised if the ClientHello has no usable server name. `rule` is the reason."""

    def __init__(self, rule: NetworkRule) -> None:
        super().__init__(rule)
        self.rule = rule


class ClientHelloReader:
    """A reader of a client's first bytes, in pieces of any size, until its ClientHello is complete."""

    def __init__(self) -> None:
        self.taken = b""

    def feed(self, data: bytes) -> str | None:
        """Add bytes. Return the server name once it is known, otherwise None.

        Raises: ClientHelloError, if the input isn't a ClientHello with a usable server name.
        """
        self.taken += data
        message = self._join_first_message()
        if message is None:
            if len(self.taken) > MAX_BYTES:
                raise ClientHelloError(NetworkRule.HELLO_MALFORMED)
            return None
        return _parse_server_name(message)

    def _join_first_message(self) -> bytes | None:
        """Return the first handshake message, joined from its records, or None while it is incomplete.

        Raises: ClientHelloError, if the records are malformed, too many, or contain more than this message.
        """
        message, at = b"", 0
        for _ in range(MAX_HELLO_RECORDS):
            head = self.taken[at : at + _RECORD_HEADER_BYTES]
            _check_record(head)
            if len(head) < _RECORD_HEADER_BYTES:
                return None
            length = int.from_bytes(head[3:5], "big")
            message += self.taken[at + _RECORD_HEADER_BYTES : at + _RECORD_HEADER_BYTES + length]
            at += _RECORD_HEADER_BYTES + length
            if (whole := _get_message_length(message)) is not None and len(message) >= whole:
                if len(message) > whole:
                    raise ClientHelloError(NetworkRule.HELLO_MALFORMED)
                return message
            if at > len(self.taken):
                return None
        raise ClientHelloError(NetworkRule.HELLO_FRAGMENTED)


def _check_record(head: bytes) -> None:
    """Check that the bytes can begin a handshake record.

    Raises: ClientHelloError, if they can't, or if the record's length is invalid.
    """
    if head and (head[0] != _HANDSHAKE or head[1:2] not in (b"", bytes([_TLS_MAJOR]))):
        raise ClientHelloError(NetworkRule.NOT_TLS)
    if len(head) == _RECORD_HEADER_BYTES and not 0 < int.from_bytes(head[3:5], "big") <= MAX_BYTES:
        raise ClientHelloError(NetworkRule.HELLO_MALFORMED)


def _get_message_length(message: bytes) -> int | None:
    """Return the length of the handshake message including its header, or None while it is unknown.

    Raises: ClientHelloError, if the message isn't a ClientHello or is too long.
    """
    if message and message[0] != _CLIENT_HELLO:
        raise ClientHelloError(NetworkRule.NOT_TLS)
    if len(message) < 4:
        return None
    length = int.from_bytes(message[1:4], "big")
    if length > MAX_BYTES:
        raise ClientHelloError(NetworkRule.HELLO_MALFORMED)
    return 4 + length


def _parse_server_name(message: bytes) -> str:
    try:
        extensions = dict(_parse_extensions(message))
        if not _ECH_EXTENSION_TYPES.isdisjoint(extensions):
            raise ClientHelloError(NetworkRule.SNI_ENCRYPTED)
        if _SERVER_NAME not in extensions:
            raise ClientHelloError(NetworkRule.SNI_MISSING)
        return _parse_only_name(extensions[_SERVER_NAME])
    except _MalformedFieldError:
        raise ClientHelloError(NetworkRule.HELLO_MALFORMED) from None


def _parse_extensions(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the extensions of a ClientHello.

    Raises: _TruncatedFieldError, if a field is truncated, an extension is repeated, or bytes follow the end.
    """
    hello = _FieldReader(message[4:])
    hello.read_bytes(2 + 32)  # version, random
    for length in (1, 2, 1):  # session id, cipher suites, compression methods
        hello.read_vector(length)
    extensions = _FieldReader(hello.read_vector(2) if hello.left else b"")
    if hello.left:
        raise _MalformedFieldError
    seen = set()
    while extensions.left:
        kind = extensions.number(2)
        if kind in seen:
            raise _MalformedFieldError
        seen.add(kind)
        yield kind, extensions.read_vector(2)


def _parse_only_name(extension: bytes) -> str:
    outer = _FieldReader(extension)
    names = _FieldReader(outer.read_vector(2))
    kind, name = names.number(1), names.read_vector(2)
    if kind != _HOST_NAME or not name or names.left or outer.left:
        raise _MalformedFieldError
    try:
        return name.decode("ascii")
    except UnicodeDecodeError:
        raise _MalformedFieldError from None


class _MalformedFieldError(Exception):
    """An exception raised when a field is truncated or has extra bytes."""


class _FieldReader:
    """A reader that consumes a byte string from the front."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def left(self) -> int:
        """Return the number of remaining bytes."""
        return len(self._content) - self._at

    def read_bytes(self, count: int) -> bytes:
        """Consume and return `count` bytes. Raises: _TruncatedFieldError, if fewer remain."""
        if count > self.left:
            raise _MalformedFieldError
        self._at += count
        return self._content[self._at - count : self._at]

    def number(self, count: int) -> int:
        """Consume `count` bytes, and return them as an integer.

        Raises: _TruncatedFieldError, if fewer remain.
        """
        return int.from_bytes(self.read_bytes(count), "big")

    def read_vector(self, count: int) -> bytes:
        """Consume a length of `count` bytes, and return the bytes of that length.

        Raises: _TruncatedFieldError, if fewer bytes remain.
        """
        return self.read_bytes(self.number(count))


async def serve_tunnel(guest: GuestConnection, access: Access) -> None:
    """Serve a CONNECT request to its end. Raises: AccessNotServedError, if the access is denied or fails."""
    access.add_facts()
    early = await guest.read_early_bytes()
    async with access.connect() as upstream:
        await guest.accept_connect()
        hello = await _read_client_hello(guest, access, early)
        if hello:
            guest.mark_tunnel_open()
            await upstream.send(hello)
            await _relay_both_ways(guest, upstream)


async def _read_client_hello(guest: GuestConnection, access: Access, early: bytes) -> bytes:
    """Read the ClientHello and check its server name. Return its bytes, or no bytes if the guest sends none.

    Raises: AccessNotServedError, if a rule denies the access or the ClientHello arrives too slowly.
    """
    reader, data = ClientHelloReader(), early
    try:
        async with asyncio.timeout(guest.limits.head_s):
            while (name := reader.feed(data)) is None:
                if not (data := await guest.read()):
                    return b""
    except ClientHelloError as problem:
        access.add_facts(server_name=problem.rule)
    except TimeoutError:
        raise build_rule_violation_error(NetworkRule.TOO_SLOW) from None
    else:
        access.add_facts(server_name=name)
    return reader.taken


async def _relay_both_ways(guest: GuestConnection, upstream: Upstream) -> None:
    """Relay bytes in both directions until both directions have ended."""
    async with limit_idle_time(guest.limits.idle_s) as moved:

        async def up() -> None:
            await _copy_bytes(guest.read, upstream.send, moved)
            upstream.end()

        async def down() -> None:
            await _copy_bytes(upstream.read, guest.stream.write, moved)
            await guest.stream.end()

        await run_concurrently(up(), down())


async def _copy_bytes(
    read: Callable[[], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]], moved: Callable[[], None]
) -> None:
    while data := await read():
        moved()
        await write(data)
        moved()


class Relay:
    """The relay for guest code's connections. It implements `ports.egress.Egress`.

    Args:
        limits: the limits of each attempt, and of all attempts together.
        clock: measures the duration of accesses.
        metrics: the counters.
        look_up: a function that resolves a name.
        public: returns whether an address counts as public.
    """

    def __init__(
        self,
        limits: EgressLimits,
        clock: Clock,
        metrics: Metrics,
        *,
        look_up: ResolveName = resolve_blocking,
        public: Public = is_public,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._metrics = metrics
        self._resolver = Resolver(look_up)
        self._public = public
        self._places = ThresholdSemaphore(limits.open_at_once)
        self._turns = TurnScheduler()
        self._lanes = count()

    def session(self, policy: NetworkPolicy, owner: int = 0) -> RelaySession:
        """Return a session for an attempt. `owner` is the user's id."""
        way = EgressContext(
            owner=owner,
            policy=policy,
            resolver=self._resolver,
            public=self._public,
            places=self._places,
            wait_s=self._limits.place_s,
            look_ups=asyncio.Semaphore(LOOK_UPS),
            ledger=EgressLedger(self._limits, self._clock, self._metrics),
            turn=partial(self._turns.wait_for_turn, owner, str(next(self._lanes))),
        )
        return RelaySession(way, self._limits)


class RelaySession:
    """The relay's session for one attempt. It implements `ports.egress.EgressSession`."""

    def __init__(self, way: EgressContext, limits: EgressLimits) -> None:
        self._way = way
        self.limits = limits
        self.record_limit_reached = way.ledger.record_limit_exceeded
        self.events = way.ledger.events

    async def serve(self, stream: GuestStream, unit: int) -> None:
        """Serve one connection of a unit, request by request."""
        guest = GuestConnection(stream, self._way.ledger, self.limits, self._way.turn)
        with suppress(ConnectionResetError):  # the container has disconnected
            try:
                while await self._serve_next(guest, unit):
                    pass
                await guest.drain_and_close()
            except AccessNotServedError as end:
                await guest.refuse(end)

    async def _serve_next(self, guest: GuestConnection, unit: int) -> bool:
        """Serve the next request, if any, and return whether another request may follow."""
        request = await self._read_request(guest, unit)
        if request is None:
            return False
        target = parse_target(request.method.decode("ascii"), request.target.decode("ascii"))
        with record_access(self._way, unit, target) as asked:
            if target.via is AccessProtocol.TLS:
                await serve_tunnel(guest, asked)
                return False
            return await serve_request(guest, asked, request)

    async def _read_request(self, guest: GuestConnection, unit: int) -> h11.Request | None:
        """Return the next request, or None at the end. Record an unreadable request.

        Raises: AccessNotServedError, if the request is unreadable.
        """
        try:
            return await guest.request()
        except AccessNotServedError as end:
            self._way.ledger.record_unreadable(unit, end)
            raise
