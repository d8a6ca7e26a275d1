"""A gateway on a real PostgreSQL server, with a node and a small daemon: everything but the broker."""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from assayd.api import ApiServer
from assayd.wiring import CoreParts, PartOverrides
from assayd_cluster.gateway.outbox import BrokerMessage, Count, DispatchOutbox
from assayd_cluster.gateway.program import configure_gateway
from assayd_cluster.gateway.wiring import Gateway, build_gateway
from assayd_cluster.node.links import DaemonClient, GatewayClient
from assayd_cluster.node.running import (
    EventForwarder,
    MessageForged,
    MessageRequeued,
    NodeRunner,
    StopSignals,
)
from assayd_cluster.node.worker import HeartbeatSender
from assayd_cluster.settings import GatewaySettings
from assayd_cluster.tokens import NODES_TENANT, DatabaseTokens, Scope, TokenTerms
from support.daemons.server import Served, serving_small
from support.daemons.small_daemon import How

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

NODE = "node-1"


class InProcess:
    """Passes messages to the node through a queue in this process."""

    def __init__(self) -> None:
        self.problem = ""
        self.messages: queue.SimpleQueue[BrokerMessage | None] = queue.SimpleQueue()

    @asynccontextmanager
    async def running(self, dispatches: DispatchOutbox, count: Count) -> AsyncIterator[None]:
        self._dispatches = dispatches
        yield

    async def publish(self, message: BrokerMessage) -> None:
        self.messages.put(message)
        await self._dispatches.record_published([message.attempt])


class SmallGateway:
    """A gateway behind its socket, in its own thread."""

    def __init__(self, folder: Path, database_url: str, how: How, host: Served) -> None:
        self.path = folder / "g"
        self.daemon, self.call = host.daemon, host.call
        """The daemon of its node, and what is done to that."""
        self.started = threading.Event()
        self.publisher = InProcess()
        self._how = how
        secret = folder / "database-url"
        secret.write_text(database_url)
        self._settings = GatewaySettings(
            state_dir=folder / "state",
            policy_folders=(),
            cluster={"database_url_file": secret},
            **{"limits": {"min_free_mb": 0}, **how.settings},
        )
        self._server: ApiServer
        self._loop: asyncio.AbstractEventLoop
        self._tokens: DatabaseTokens
        self.basics: CoreParts
        self.look: Callable[[], Coroutine[Any, Any, None]]
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as problem:
            self.problem = problem
            raise
        finally:
            self.started.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.path))
            listener.listen()
            async with AsyncExitStack() as stack:
                overrides = PartOverrides(kinds=self._how.kinds())
                gateway = await build_gateway(self._settings, stack, self.publisher, overrides)
                await self._serve(gateway, listener)

    async def _serve(self, gateway: Gateway, listener: socket.socket) -> None:
        self.basics = basics = gateway.cluster.basics
        self._tokens = DatabaseTokens(basics.access, basics.clock, basics.ids)
        self._server = ApiServer(configure_gateway(self._settings, gateway)())
        async with asyncio.TaskGroup() as tasks:
            kept = [
                tasks.create_task(gateway.cluster.membership.keep(gateway.continue_adopted_work)),
                tasks.create_task(gateway.cluster.readiness.keep_ready()),
            ]
            self.look = gateway.cluster.readiness.check_nodes
            self.started.set()
            await self._server.serve(sockets=[listener])
            gateway.parts.batches.stop()
            gateway.parts.scheduler.release_waiters()
            for task in kept:
                task.cancel()

    def token(self, tenant: str, *scopes: Scope, node: str | None = None) -> str:
        """Return a new token."""
        terms = TokenTerms(name="test", tenant=tenant, scopes=frozenset(scopes), node=node)
        return str(self.ask(self._tokens.create(terms))[1])

    def ask(self, asked: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine in the gateway's thread and return its result."""
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(30)

    def stop(self) -> None:
        if self.problem is None:
            self._loop.call_soon_threadsafe(setattr, self._server, "should_exit", True)


class SmallNode:
    """The real code of a node in front of a daemon, fed from the gateway's queue."""

    def __init__(self, gateway: SmallGateway, daemon: Path) -> None:
        self._messages = gateway.publisher.messages
        token = gateway.token(NODES_TENANT, Scope.NODE, node=NODE)
        self._link = GatewayClient(NODE, f"http+unix://{gateway.path}", token=token)
        self._daemon = DaemonClient(daemon)
        self._forwarder = EventForwarder(self._link)
        self._stopping = StopSignals()
        self._runner = NodeRunner(self._link, self._daemon, self._forwarder, self._stopping)
        self.consumes = threading.Event()
        self._heart = HeartbeatSender(
            gateway=self._link,
            daemon=self._daemon,
            runner=self._runner,
            stopping=self._stopping,
            capacity=4,
            want=lambda wanted: self.consumes.set() if wanted else self.consumes.clear(),
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the node while the body runs."""
        turns = [*[self._work] * 4, self._beat, self._forward, self._cancel]
        threads = [threading.Thread(target=turn) for turn in turns]
        for thread in threads:
            thread.start()
        try:
            assert self.consumes.wait(30)
            yield
        finally:
            self._stopping.draining.set()
            self._stopping.hurried.set()
            self._heart.sooner.set()
            for _ in range(4):
                self._messages.put(None)
            for thread in threads:
                thread.join(60)
            self._link.close()

    def _work(self) -> None:
        while (message := self._messages.get()) is not None:
            try:
                self._runner.run(message.attempt, message.ticket)
            except MessageRequeued:
                if not self._stopping.draining.is_set():
                    self._messages.put(message)
            except MessageForged:
                continue

    def _beat(self) -> None:
        while not self._stopping.draining.is_set():
            self._heart.beat()

    def _forward(self) -> None:
        while not self._stopping.hurried.wait(0.05):
            self._forwarder.send()

    def _cancel(self) -> None:
        while not self._stopping.draining.is_set():
            for attempt in self._link.wait_for_cancelled(1):
                self._daemon.cancel(attempt)


@contextmanager
def serving_gateway(folder: Path, database_url: str, how: How | None = None) -> Iterator[SmallGateway]:
    """Serve a gateway with a node while the body runs."""
    how = how or How()
    host = folder / "host"
    host.mkdir()
    with serving_small(host, how=How(kinds=how.kinds)) as daemon:
        gateway = SmallGateway(folder, database_url, how, daemon)
        logging = structlog.get_config()
        structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
        thread = threading.Thread(target=gateway.run)
        thread.start()
        try:
            assert gateway.started.wait(60)
            assert gateway.problem is None, gateway.problem
            with SmallNode(gateway, daemon.path).running():
                gateway.ask(gateway.look())
                yield gateway
        finally:
            gateway.stop()
            thread.join(60)
            structlog.configure(**logging)
