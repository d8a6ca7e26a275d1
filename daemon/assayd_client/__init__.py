"""A client for programs: the API's verbs, blocking or asynchronous, on a socket of the host or a gateway.

    with Client() as client:
        attempt = client.submit({"kind": "extractor", "payload": {...}}, wait_s=60)
        print(attempt.verdict)

Answers are documents of the contract, with a type for every field. `PlainClient` gives them as JSON objects
instead, and imports neither the HTTP library, which comes with the first client of the others, nor pydantic,
which comes with the first typed answer.
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
from assayd_client.errors import (
    ClientError,
    Conflict,
    DaemonUnreachable,
    NotFound,
    NotReady,
    QueueFull,
    Refused,
)
from assayd_client.plain import PlainClient

if TYPE_CHECKING:
    from assayd_client.asynchronous import AsyncClient
    from assayd_client.blocking import Client

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

_HOMES = {"AsyncClient": "asynchronous", "Client": "blocking"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"assayd_client.{_HOMES[name]}"), name)
