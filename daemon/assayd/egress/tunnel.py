"""CONNECT: an uninspected TLS tunnel to a listed host, which is opened once the client names that host.

This module reads the server name in the client's ClientHello, with pure functions and with limits.

Only the first handshake message is read, which must be a ClientHello in few records. Data in which parsers
could find different names (a second extension, two names, bytes after the end) is rejected as malformed.

Source: RFC 8446 (4.1.2, 5.1), RFC 6066 (3), RFC 9849 (encrypted ClientHello).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from assayd.aio import run_concurrently
from assayd.egress.access import Access
from assayd.egress.decision import rule_refusal
from assayd.egress.guest import GuestConnection
from assayd.egress.upstream import Upstream, limit_idle_time
from assayd.findings.network_rules import NetworkRule

MOST_BYTES = 16 * 1024
"""Maximum bytes of a ClientHello with its record headers.

The largest today, with post-quantum keys, are below 4 KiB.
"""
MOST_RECORDS = 8

_HANDSHAKE, _CLIENT_HELLO, _TLS_MAJOR = 22, 1, 3
_RECORD_HEADER = 5
_SERVER_NAME, _HOST_NAME = 0, 0
_ENCRYPTED = frozenset({0xFE0D, 0xFFCE})
"""encrypted_client_hello, and encrypted_server_name of its earlier drafts"""


class HelloError(ValueError):
    """An exception raised if the ClientHello has no usable server name; `rule` is the reason."""

    def __init__(self, rule: NetworkRule) -> None:
        super().__init__(rule)
        self.rule = rule


class HelloReader:
    """A reader of a client's first bytes, in pieces of any size, until its ClientHello is complete."""

    def __init__(self) -> None:
        self.taken = b""

    def feed(self, data: bytes) -> str | None:
        """Add bytes; return the server name once it is known, otherwise None.

        Raises: HelloError.
        """
        self.taken += data
        message = self._first_message()
        if message is None:
            if len(self.taken) > MOST_BYTES:
                raise HelloError(NetworkRule.HELLO_MALFORMED)
            return None
        return _parse_server_name(message)

    def _first_message(self) -> bytes | None:
        """Return the first handshake message, joined from its records; None while it is incomplete."""
        message, at = b"", 0
        for _ in range(MOST_RECORDS):
            head = self.taken[at : at + _RECORD_HEADER]
            _check_record(head)
            if len(head) < _RECORD_HEADER:
                return None
            length = int.from_bytes(head[3:5], "big")
            message += self.taken[at + _RECORD_HEADER : at + _RECORD_HEADER + length]
            at += _RECORD_HEADER + length
            if (whole := _message_length(message)) is not None and len(message) >= whole:
                if len(message) > whole:
                    raise HelloError(NetworkRule.HELLO_MALFORMED)
                return message
            if at > len(self.taken):
                return None
        raise HelloError(NetworkRule.HELLO_FRAGMENTED)


def _check_record(head: bytes) -> None:
    """Check that the bytes can begin a handshake record. Raises: HelloError."""
    if head and (head[0] != _HANDSHAKE or head[1:2] not in (b"", bytes([_TLS_MAJOR]))):
        raise HelloError(NetworkRule.NOT_TLS)
    if len(head) == _RECORD_HEADER and not 0 < int.from_bytes(head[3:5], "big") <= MOST_BYTES:
        raise HelloError(NetworkRule.HELLO_MALFORMED)


def _message_length(message: bytes) -> int | None:
    """Return the length of the handshake message including its header; None while it is unknown."""
    if message and message[0] != _CLIENT_HELLO:
        raise HelloError(NetworkRule.NOT_TLS)
    if len(message) < 4:
        return None
    length = int.from_bytes(message[1:4], "big")
    if length > MOST_BYTES:
        raise HelloError(NetworkRule.HELLO_MALFORMED)
    return 4 + length


def _parse_server_name(message: bytes) -> str:
    try:
        extensions = dict(_parse_extensions(message))
        if not _ENCRYPTED.isdisjoint(extensions):
            raise HelloError(NetworkRule.SNI_ENCRYPTED)
        if _SERVER_NAME not in extensions:
            raise HelloError(NetworkRule.SNI_MISSING)
        return _parse_only_name(extensions[_SERVER_NAME])
    except _TruncatedField:
        raise HelloError(NetworkRule.HELLO_MALFORMED) from None


def _parse_extensions(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the extensions of a ClientHello; each extension may occur only once."""
    hello = _FieldReader(message[4:])
    hello.read_bytes(2 + 32)  # version, random
    for length in (1, 2, 1):  # session id, cipher suites, compression methods
        hello.read_vector(length)
    extensions = _FieldReader(hello.read_vector(2) if hello.left else b"")
    if hello.left:
        raise _TruncatedField
    seen = set()
    while extensions.left:
        kind = extensions.number(2)
        if kind in seen:
            raise _TruncatedField
        seen.add(kind)
        yield kind, extensions.read_vector(2)


def _parse_only_name(extension: bytes) -> str:
    outer = _FieldReader(extension)
    names = _FieldReader(outer.read_vector(2))
    kind, name = names.number(1), names.read_vector(2)
    if kind != _HOST_NAME or not name or names.left or outer.left:
        raise _TruncatedField
    try:
        return name.decode("ascii")
    except UnicodeDecodeError:
        raise _TruncatedField from None


class _TruncatedField(Exception):
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
        """Consume `count` bytes. Raises: _Short."""
        if count > self.left:
            raise _TruncatedField
        self._at += count
        return self._content[self._at - count : self._at]

    def number(self, count: int) -> int:
        """Consume an integer of `count` bytes. Raises: _Short."""
        return int.from_bytes(self.read_bytes(count), "big")

    def read_vector(self, count: int) -> bytes:
        """Consume bytes that are preceded by their length in `count` bytes. Raises: _Short."""
        return self.read_bytes(self.number(count))


async def serve_tunnel(guest: GuestConnection, access: Access) -> None:
    """Serve a CONNECT request to its end. Raises: NotServed."""
    access.add_facts()
    early = await guest.read_early_bytes()
    async with access.connect() as upstream:
        await guest.accept_connect()
        hello = await _read_hello(guest, access, early)
        if hello:
            guest.mark_tunnel_open()
            await upstream.send(hello)
            await _relay_both_ways(guest, upstream)


async def _read_hello(guest: GuestConnection, access: Access, early: bytes) -> bytes:
    """Read the ClientHello and check its server name; return its bytes, or none if the guest sends none."""
    reader, data = HelloReader(), early
    try:
        async with asyncio.timeout(guest.limits.head_s):
            while (name := reader.feed(data)) is None:
                if not (data := await guest.read()):
                    return b""
    except HelloError as problem:
        access.add_facts(server_name=problem.rule)
    except TimeoutError:
        raise rule_refusal(NetworkRule.TOO_SLOW) from None
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
