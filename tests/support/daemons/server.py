"""The real API on a real Unix socket, in its own thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from assayd.api import ApiLimits, ApiServer, SocketAccess, build_server_config, create_app
from assayd_chains.routes import ROUTERS as CHAIN_ROUTERS
from support.daemons.fake_service import FakeService
from support.daemons.small_daemon import How, SmallDaemon, small_daemon


@contextmanager
def serving(
    service: FakeService,
    path: Path,
    *,
    access: SocketAccess | None = None,
    http: type | None = None,
    limits: ApiLimits | None = None,
) -> Iterator[Path]:
    """Serve while the body runs."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    who = access or SocketAccess()
    app = create_app(service, None, access=who, limits=limits or ApiLimits(heartbeat_s=0.05))
    config = build_server_config(app, who)
    if http is not None:
        config.http = http
    server = ApiServer(config)
    listener.listen()  # a client that comes before the server does waits in the queue
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        yield path
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def serving_small(
    folder: Path, *, how: How | None = None, access: SocketAccess | None = None
) -> Iterator[Served]:
    """Serve a small daemon while the body runs."""
    served = Served(folder)
    logging = structlog.get_config()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # not among a test's output
    thread = threading.Thread(target=lambda: asyncio.run(served.run(how, access or SocketAccess())))
    thread.start()
    try:
        served.started.wait(30)
        yield served
    finally:
        served.stop()
        thread.join()
        structlog.configure(**logging)


class Served:
    """A small daemon behind its socket; tests act on it in its own thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "s"
        self.started = threading.Event()
        self.daemon: SmallDaemon
        self._loop: asyncio.AbstractEventLoop
        self._server: ApiServer

    async def run(self, how: How | None, access: SocketAccess) -> None:
        self._loop = asyncio.get_running_loop()
        self.path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.path))
            listener.listen()
            async with small_daemon(self.folder, how) as self.daemon:
                limits = ApiLimits(heartbeat_s=0.05)
                app = create_app(
                    self.daemon.service,
                    self.daemon.batches,
                    chains=self.daemon.chains,
                    library=self.daemon.library,
                    access=access,
                    limits=limits,
                    budget=self.daemon.scheduler.budget,
                    routers=CHAIN_ROUTERS,
                )
                self._server = ApiServer(build_server_config(app, access))
                left = await self.daemon.admission.load_unfinished()
                await self.daemon.admission.recover(left)
                await self.daemon.batches.recover(left)
                self.started.set()
                await self._server.serve(sockets=[listener])

    def call(self, act: Callable[[], object]) -> None:
        """Call a function in the daemon's thread, and wait until it returns."""
        done = threading.Event()

        def run() -> None:
            act()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(10)

    def stop(self) -> None:
        self.call(self.daemon.batches.stop)
        self._server.should_exit = True
