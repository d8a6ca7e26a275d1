"""The real API on a real Unix socket, in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from assayd.api import Access, ApiLimits, create_app, server_config

from .fake_service import FakeService


@contextmanager
def serving(
    service: FakeService, path: Path, *, access: Access | None = None, http: type | None = None
) -> Iterator[Path]:
    """Serve until the body ends."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    app = create_app(service, None, access=access or Access(), limits=ApiLimits(heartbeat_s=0.05))
    config = server_config(app)
    if http is not None:
        config.http = http
    server = uvicorn.Server(config)
    listener.listen()  # a client that comes before the server does waits in the queue
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        yield path
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
