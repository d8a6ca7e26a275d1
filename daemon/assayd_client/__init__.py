"""Provides clients for the API, blocking or asynchronous, over a local socket or a gateway.

    with Client() as client:
        attempt = client.submit({"kind": "extractor", "payload": {...}}, wait_s=60)
        print(attempt.verdict)

Responses are documents of the API contract, with a type for every field. `PlainClient` returns JSON objects
instead and doesn't import pydantic; the other clients import pydantic when they receive the first response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assayd_client.address import (
    SYSTEM_SOCKET,
    AddressOptions,
    ServerChoice,
    SocketChoice,
    Target,
    find_daemon,
    find_socket,
)
from assayd_client.answers import Document, StreamEvent
from assayd_client.blocking import Client, PlainClient
from assayd_client.errors import (
    ClientError,
    Conflict,
    DaemonUnreachable,
    NotFound,
    NotReady,
    QueueFull,
    Refused,
)

if TYPE_CHECKING:
    from assayd_client.asynchronous import AsyncClient

__all__ = [
    "SYSTEM_SOCKET",
    "AddressOptions",
    "AsyncClient",
    "Client",
    "ClientError",
    "Conflict",
    "DaemonUnreachable",
    "Document",
    "NotFound",
    "NotReady",
    "PlainClient",
    "QueueFull",
    "Refused",
    "ServerChoice",
    "SocketChoice",
    "StreamEvent",
    "Target",
    "find_daemon",
    "find_socket",
]


def __getattr__(name: str) -> object:
    if name != "AsyncClient":  # which imports an event loop
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from assayd_client.asynchronous import AsyncClient

    return AsyncClient
