"""Serves HTTP on a loopback address only to the processes of one user.

TCP doesn't identify the caller, but the kernel lists the user at each end of a connection. If the kernel
lists another user or none, the connection is closed before any byte is read.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

Address = tuple[str, int]
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""The tables of this network namespace; the second doesn't exist in a kernel without IPv6."""
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST = 4, 20, 1
ANY_COOKIE = (0xFFFFFFFF, 0xFFFFFFFF)
UID_OFFSET = 16 + 4 + 48 + 12
"""The offset of the uid in a response: after the header, the state, the connection and three numbers."""
ESTABLISHED = "01"
"""The only relevant state; in other states, sockets without a process are listed with root as the owner."""
MAPPED = bytes(10) + b"\xff\xff"
"""The prefix of an IPv4 address to which an IPv6 socket has connected."""


def build_server_config(application: Any, **more: Any) -> uvicorn.Config:
    """Return a uvicorn configuration for HTTP without access logs. `more` contains further options."""
    return uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        ws="none",
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        **more,
    )


class SameUserHttpProtocol(H11Protocol):
    """A uvicorn protocol that accepts only connections of the same user, and limits headers.

    This class uses h11, because uvicorn's other protocol requires a package that the client doesn't need
    otherwise. Because the number of connections is limited, a connection is closed if its headers don't
    arrive within `headers_s`.
    """

    headers_s = 30.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close a new connection unless the kernel lists this process's user as its peer."""
        super().connection_made(transport)
        uid = None
        try:
            uid = find_peer_uid(transport)
        finally:
            if uid != os.geteuid():
                transport.abort()
        self._headers_due = self.loop.call_later(self.headers_s, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Process received data, and start or stop the timeout for the headers of a request."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._headers_due.cancel()
        elif self._headers_due.cancelled():
            self._headers_due = self.loop.call_later(self.headers_s, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeout of a connection that was lost."""
        self._headers_due.cancel()
        super().connection_lost(exc)


def find_peer_uid(transport: asyncio.BaseTransport) -> int | None:
    """Return the uid at the peer of a loopback connection, or None if the kernel lists none."""
    local, remote = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    if not local or not remote:
        return None
    uid = query_kernel_uid(local[:2], remote[:2])
    return find_uid_in_tables(local[:2], remote[:2]) if uid is None else uid


def query_kernel_uid(local: Address, remote: Address) -> int | None:
    """Return the uid of an established connection as reported by the kernel, or None.

    This query is faster than reading the kernel's tables (`find_uid_in_tables`), which takes milliseconds of
    CPU time even if there are few connections.

    Source: sock_diag(7), a request for one socket.
    """
    family = socket.AF_INET6 if ":" in local[0] else socket.AF_INET
    ends = b"".join(socket.inet_pton(family, host).ljust(16, b"\0") for host, _ in (local, remote))
    ports = struct.pack("!HH", local[1], remote[1])
    question = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, 1 << int(ESTABLISHED))
    body = question + ports + ends + struct.pack("=III", 0, *ANY_COOKIE)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(1.0)
            kernel.send(
                struct.pack("=IHHII", 16 + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0) + body
            )
            answer = kernel.recv(4096)
    except OSError:  # this kernel lacks it, or a filter blocks it
        return None
    kind = struct.unpack_from("=H", answer, 4)[0]
    if kind != SOCK_DIAG_BY_FAMILY or answer[17] != int(ESTABLISHED):
        return None
    return int(struct.unpack_from("=I", answer, UID_OFFSET)[0])


def find_uid_in_tables(local: Address, remote: Address) -> int | None:
    """Return the uid of an established connection from the kernel's tables, or None if none lists it."""
    for table in TABLES:
        if table.exists():
            uid = parse_connection_uid(table.read_text(encoding="ascii"), local, remote)
            if uid is not None:
                return uid
    return None


def parse_connection_uid(table: str, local: Address, remote: Address) -> int | None:
    """Return the uid of the connection from `local` to `remote` in a kernel table, or None."""
    for ends in zip(_format_address(local), _format_address(remote), strict=True):
        _, found, rest = table.partition(f": {' '.join(ends)} {ESTABLISHED} ")
        if found:
            return int(rest.split(maxsplit=4)[3])  # after both queues, timer and retransmissions
    return None


def _format_address(address: Address) -> Iterator[str]:
    """Yield the forms of an address in the kernel's tables.

    The address is in native byte order; IPv4 also occurs as mapped IPv6.
    """
    host, port = address
    packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    for each in (packed,) if len(packed) == len(MAPPED) + 4 else (packed, MAPPED + packed):
        words = struct.unpack(f"={len(each) // 4}I", each)
        yield f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"
