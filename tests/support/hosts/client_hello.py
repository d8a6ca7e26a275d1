"""ClientHellos for tests: a real one from the ssl module, and ways to change it."""

from __future__ import annotations

import ssl
from collections.abc import Callable

Extensions = list[tuple[int, bytes]]

SERVER_NAME, ENCRYPTED_HELLO = 0, 0xFE0D


def hello(name: str | None = "api.example.com") -> bytes:
    """Return a client's first message as one record; without a server name if `name` is None."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake without a peer")


def records(message: bytes, size: int) -> bytes:
    """Split a handshake message into records of this size."""
    pieces = (message[start : start + size] for start in range(0, len(message), size))
    return b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2, "big") + piece for piece in pieces)


def message_of(record: bytes) -> bytes:
    """Return the handshake message of a record."""
    return record[5:]


def with_extensions(change: Callable[[Extensions], Extensions]) -> bytes:
    """Return a ClientHello with changed extensions and correct lengths."""
    message = message_of(hello())
    at = 4 + 2 + 32
    at += 1 + message[at]
    at += 2 + int.from_bytes(message[at : at + 2], "big")
    at += 1 + message[at]
    rest, found = message[at + 2 :], []
    while rest:
        kind, size = int.from_bytes(rest[:2], "big"), int.from_bytes(rest[2:4], "big")
        found.append((kind, rest[4 : 4 + size]))
        rest = rest[4 + size :]
    packed = b"".join(
        kind.to_bytes(2, "big") + len(content).to_bytes(2, "big") + content for kind, content in change(found)
    )
    body = message[4:at] + len(packed).to_bytes(2, "big") + packed
    whole = b"\x01" + len(body).to_bytes(3, "big") + body
    return records(whole, len(whole))


def server_name(*names: bytes, kind: int = 0) -> bytes:
    """Return the content of a server_name extension."""
    listed = b"".join(bytes([kind]) + len(name).to_bytes(2, "big") + name for name in names)
    return len(listed).to_bytes(2, "big") + listed
