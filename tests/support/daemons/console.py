"""The console in front of a test's daemon, on its own port, for a browser."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn

from assayd_client import AsyncClient
from assayd_console.daemon import ConsoleDaemon
from assayd_console.guard import SessionStore
from assayd_console.serving import build_console

CHROMIUM = shutil.which("chromium")
needs_browser = pytest.mark.system if CHROMIUM is None else pytest.mark.filterwarnings("error")
"""For those without Chromium these are among the tests of `make test-system`, which installs it."""


@dataclass(frozen=True)
class Console:
    """A running console."""

    url: str
    sessions: SessionStore

    @property
    def link(self) -> str:
        """Return a new sign-in link."""
        return f"{self.url}/#{self.sessions.offer()}"


@contextmanager
def console_on(path: Path | str) -> Iterator[Console]:
    """Serve a console for the daemon on a socket while the body runs."""
    sessions = SessionStore()
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        host = "{}:{}".format(*listener.getsockname())
        app = build_console(ConsoleDaemon(AsyncClient(path)), sessions, frozenset({host}))
        config = uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: server.run(sockets=[listener]))
        thread.start()
        try:
            yield Console(url=f"http://{host}", sessions=sessions)
        finally:
            server.should_exit = True
            thread.join()
