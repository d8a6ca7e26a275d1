"""Serves other hosts in front of a gateway, with TLS, connection limits per address, and tokens."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import uvicorn
from starlette.middleware import Middleware

from assayd.api.peer import build_protocol_class
from assayd.errors import ConfigError, RequestError
from assayd_client import Target
from assayd_client.cli.own_user import configure_server
from assayd_cluster.gate import SHOWN
from assayd_cluster.secure_server import CertificateFiles, TlsServer
from assayd_compat.app import build_service
from assayd_compat.tokens import RequireTokenMiddleware

CONNECTIONS = 1024
GRACE_S = 10


class CompatTlsServer(TlsServer):
    """A gateway's server that handles signals in the same way as uvicorn's own server."""

    capture_signals = uvicorn.Server.capture_signals


def serve_others(
    daemon: Target,
    listener: socket.socket,
    files: tuple[Path, Path],
    *,
    at_once: int,
    policies: Mapping[str, str],
) -> None:
    """Serve other hosts until the program ends; `files` contains the certificate and its key.

    Raises: RequestError ``usage``, if the files can't be used.
    """
    try:
        certificate = CertificateFiles(*files)
    except ConfigError as error:
        raise RequestError("usage", error.message) from error
    config = configure_server(
        build_service(
            daemon,
            at_once=at_once,
            policies=policies,
            callers=[Middleware(RequireTokenMiddleware, shown=SHOWN)],
        ),
        http=build_protocol_class(None),
        timeout_graceful_shutdown=GRACE_S,
    )
    listener.setblocking(False)
    CompatTlsServer(config, certificate, connections=CONNECTIONS).run(sockets=[listener])
