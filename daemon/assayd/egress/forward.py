"""Serves plain HTTP: each request is checked separately and sent on a separate connection.

The request is rebuilt from h11's events rather than copied, so that no second request can be hidden in it.
Headers for the proxy aren't forwarded. Redirects are returned as responses: if the guest follows a
redirect, it sends a new request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress

import h11

from assayd.aio import run_concurrently
from assayd.egress.access import Access
from assayd.egress.decision import RULE_HEADER, AccessNotServed, failed, rule_refusal
from assayd.egress.events import HttpReader
from assayd.egress.guest import GuestConnection
from assayd.egress.target import HTTP_PORT, Target
from assayd.egress.upstream import Upstream, limit_idle_time
from assayd.findings.network_rules import NetworkRule, NetworkTrouble

Pairs = list[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection",
        b"te", b"trailer", b"upgrade",
    }
)  # fmt: skip
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_NOT_UP = _HOP_BY_HOP | {b"host", b"expect"}
_NOT_DOWN = _HOP_BY_HOP | {RULE_HEADER.lower()}


async def serve_request(guest: GuestConnection, access: Access, request: h11.Request) -> bool:
    """Serve a plain HTTP request. Return whether another request may follow on this connection.

    Raises: NotServed.
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
        """Yield the host's response in groups of events, until the response ends."""
        while True:
            try:
                events = self._answer.step()
            except h11.RemoteProtocolError as problem:
                raise failed(NetworkTrouble.BROKEN_OFF) from problem
            self.upstream.entry.charge_extra(self._answer.unpaid_cost())
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
    except AccessNotServed as end:
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
    """Return the event to forward to the guest; None for events that concern only host and relay."""
    match event:
        case h11.Response():
            headers = _filter_headers(event.headers, _NOT_DOWN)
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
        *_filter_headers(request.headers, _NOT_UP),
        (b"Connection", b"close"),
    ]
    return h11.Request(method=request.method, target=target.origin, headers=headers)


def _filter_headers(headers: Iterable[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> Pairs:
    """Return the headers to forward, without `dropped` and without the headers that Connection names."""
    pairs = list(headers)
    named = b",".join(value for name, value in pairs if name == b"connection").lower().split(b",")
    gone = dropped | {name.strip() for name in named} - _FRAMING
    return [(name, value) for name, value in pairs if name not in gone]


def _encode_event(host: h11.Connection, event: h11.Event) -> bytes:
    try:
        return host.send(event) or b""
    except h11.LocalProtocolError as problem:
        raise rule_refusal(NetworkRule.HTTP_MALFORMED) from problem


def _refuse_ambiguous_length(request: h11.Request) -> None:
    """Reject a request whose end is ambiguous; h11 itself rejects two different lengths."""
    names = [name for name, _ in request.headers]
    by_chunks = b"transfer-encoding" in names
    if by_chunks and (b"content-length" in names or request.http_version < b"1.1"):
        raise rule_refusal(NetworkRule.FRAMING_AMBIGUOUS)
