"""The service for other judges' clients, in front of a test's daemon, on its own port."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import uvicorn

from assayd_compat.app import build_service


@contextmanager
def compat_on(path: Path | str, policies: Mapping[str, str]) -> Iterator[str]:
    """Serve other judges' clients for the daemon on a socket while the body runs; yield the URL."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=256)) as listener:
        config = uvicorn.Config(
            build_service(path, policies=policies),
            log_config=None,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
        thread.start()
        try:
            yield "http://{}:{}".format(*listener.getsockname())
        finally:
            server.should_exit = True
            thread.join()
