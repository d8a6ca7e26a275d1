"""A client for programs on the same host: the API's verbs, blocking or asynchronous.

    with Client() as client:
        attempt = client.submit({"kind": "extractor", "payload": {...}}, wait_s=60)

Documents are plain JSON objects with the names of the contract. The HTTP library is imported only when a
client is made, so that a program which imports this starts fast.
"""

from assayd.client.address import SYSTEM_SOCKET, SocketChoice, find_socket
from assayd.client.answers import ClientError, DaemonUnreachable, Document, StreamEvent
from assayd.client.asynchronous import AsyncClient
from assayd.client.blocking import Client

__all__ = [
    "SYSTEM_SOCKET",
    "AsyncClient",
    "Client",
    "ClientError",
    "DaemonUnreachable",
    "Document",
    "SocketChoice",
    "StreamEvent",
    "find_socket",
]
