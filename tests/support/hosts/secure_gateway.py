"""A gateway's API behind its token gate and TLS, in front of an in-memory daemon; tokens are in SQLite."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
from fastapi import FastAPI

from assayd.api import SocketAccess, build_server_config, create_app
from assayd.clock import SystemClock, UlidGenerator
from assayd.store.access import DatabaseAccess, open_access
from assayd_cluster import tables
from assayd_cluster.gate import TokenGate
from assayd_cluster.gateway import routes
from assayd_cluster.gateway.broker_accounts import SharedAccount
from assayd_cluster.nodes import DatabaseNodes
from assayd_cluster.secure_server import CertificateFiles, TlsServer, listen_tcp
from assayd_cluster.tokens import DatabaseTokens, Scope, TokenTerms, TokenVerifier
from support.daemons.fake_service import FakeService
from support.hosts.tls_gateway import CA_FILE, TLS

CONNECTIONS = 16
TRUST = ssl.create_default_context(cafile=CA_FILE)


class SecureGateway:
    """A gateway that serves in its own thread."""

    def __init__(self, folder: Path, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None) -> None:
        self.folder = folder
        self.certificate, self.key = folder / "gateway.pem", folder / "gateway.key"
        shutil.copy(TLS / "gateway.pem", self.certificate)
        shutil.copy(TLS / "gateway.key", self.key)
        self.listener = listen_tcp("127.0.0.1:0")
        self.port = self.listener.getsockname()[1]
        self.token = self.operator = ""
        self.started = threading.Event()
        self._loop_factory = loop_factory
        self.app: FastAPI
        self.server: TlsServer
        self.database: DatabaseAccess
        self.loop: asyncio.AbstractEventLoop

    def run(self) -> None:
        with asyncio.Runner(loop_factory=self._loop_factory) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with open_access(self.folder) as access:
            await access.create_tables(tables.ALL)
            tokens = DatabaseTokens(access, SystemClock(), UlidGenerator())
            terms = TokenTerms(name="t", tenant="one", scopes=frozenset({Scope.SUBMIT}))
            self.token = (await tokens.create(terms))[1]
            self.operator = (await tokens.create(replace(terms, scopes=frozenset({Scope.OPERATE}))))[1]
            app = create_app(FakeService(), None, access=SocketAccess(), routers=[routes.operator_router])
            verifier = TokenVerifier(tokens, SystemClock())
            app.state.cluster_tokens, app.state.verifier = tokens, verifier
            app.state.cluster_nodes = DatabaseNodes(access)
            self.app = app
            app.state.broker_accounts = SharedAccount()
            self.database, self.loop = access, asyncio.get_running_loop()
            gate = TokenGate(app, verifier)
            config = build_server_config(gate, SocketAccess())
            files = CertificateFiles(self.certificate, self.key)
            self.server = TlsServer(config, files, connections=CONNECTIONS)
            self.started.set()
            await self.server.serve(sockets=[self.listener])

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(verify=TRUST, base_url=f"https://localhost:{self.port}", headers=headers)

    def connect(self) -> socket.socket:
        connected = socket.create_connection(("127.0.0.1", self.port), 10)
        connected.settimeout(10)
        return connected

    def secured(self) -> ssl.SSLSocket:
        return TRUST.wrap_socket(self.connect(), server_hostname="localhost")


@contextmanager
def serving(
    folder: Path, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> Iterator[SecureGateway]:
    served = SecureGateway(folder, loop_factory)
    thread = threading.Thread(target=served.run)
    thread.start()
    served.started.wait(30)
    try:
        yield served
    finally:
        served.server.should_exit = True
        thread.join()
