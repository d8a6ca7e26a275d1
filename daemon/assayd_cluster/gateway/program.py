"""Runs the gateway from start to stop, like a daemon, but other gateways take over unfinished work."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from functools import partial

import structlog
import uvicorn
import uvloop

from assayd.aio import open_task_group
from assayd.api import ApiServer, build_server_config
from assayd.api.bounded_http import ConnectionSlots
from assayd.daemon import SWITCH_S, Daemon, Notifier, lock_state_dir, raise_priority
from assayd.errors import ConfigError
from assayd.log import configure_logging
from assayd.program import configure_allocator
from assayd.sockets import is_socket_activated, listen_unix
from assayd.wiring import build_application, build_socket_access
from assayd_cluster.gate import TokenGate
from assayd_cluster.gateway import routes
from assayd_cluster.gateway.wiring import Gateway, build_gateway
from assayd_cluster.nodes import DatabaseNodes
from assayd_cluster.secure_server import CertificateFiles, TlsServer, listen_tcp
from assayd_cluster.settings import GatewaySettings
from assayd_cluster.tokens import DatabaseTokens, TokenVerifier

log = structlog.get_logger()


def run(settings: GatewaySettings) -> int:
    """Run the gateway until it gets a signal or is declared dead, and return the exit code.

    Raises: ConfigError, StoreError if the gateway can't start.
    """
    configure_logging(settings.log.level, settings.log.format)
    sys.setswitchinterval(SWITCH_S)
    configure_allocator()
    raise_priority(settings.nice)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run_gateway(settings))


async def _run_gateway(settings: GatewaySettings) -> int:
    with lock_state_dir(settings.state_dir):
        listening = listen_unix(settings.socket, mode=settings.socket_mode, group=settings.socket_group)
        try:
            async with AsyncExitStack() as stack:
                notifier = stack.enter_context(closing(Notifier()))
                await stack.enter_async_context(notifier.send_heartbeats())
                secure = _listen_with_tls(settings, stack)
                gateway = await build_gateway(settings, stack)
                return await _serve_until_stopped(settings, gateway, notifier, listening, secure)
        finally:
            listening.close()
            if not is_socket_activated():
                settings.socket.unlink(missing_ok=True)
            log.info("gateway.stopped")


def _listen_with_tls(
    settings: GatewaySettings, stack: AsyncExitStack
) -> tuple[socket.socket, CertificateFiles] | None:
    """Return the TLS listener for other hosts, or None if the settings specify none.

    Raises: ConfigError, if the address, the certificate or the key is missing or unusable.
    """
    chosen = settings.cluster
    if chosen.listen is None:
        return None
    if chosen.certificate_file is None or chosen.key_file is None:
        message = (
            "cluster.listen: set cluster.certificate_file and cluster.key_file too; this address needs TLS"
        )
        raise ConfigError("settings.invalid", message, field="cluster.listen")
    files = CertificateFiles(chosen.certificate_file, chosen.key_file)
    return stack.enter_context(closing(listen_tcp(chosen.listen))), files


def configure_gateway(settings: GatewaySettings, gateway: Gateway) -> Callable[[], uvicorn.Config]:
    """Return a function that creates the server settings for an application behind the token gate."""
    access, limits = build_socket_access(settings), settings.limits
    basics = gateway.cluster.basics
    tokens = DatabaseTokens(basics.access, basics.clock, basics.ids)
    verifier = TokenVerifier(tokens, basics.clock)
    app = build_application(gateway.parts, access, (routes.operator_router, routes.router))
    # Routes are tried in order, and nodes send most requests, so theirs come first.
    first, others = routes.router.routes, app.router.routes
    app.router.routes[:] = [*first, *(route for route in others if route not in first)]
    app.state.cluster_tokens = tokens
    app.state.verifier = verifier
    app.state.cluster_nodes = DatabaseNodes(basics.access)
    app.state.node_door = gateway.cluster.door
    app.state.broker_accounts = gateway.cluster.accounts
    refusals = gateway.cluster.metrics.refusals
    gate = TokenGate(
        app,
        verifier,
        max_per_tenant=limits.connections * 3 // 4,
        refused=lambda code: refusals.labels(code).inc(),
    )
    return partial(
        build_server_config,
        gate,
        access,
        places=ConnectionSlots(limits.connections),
        silence_s=limits.silence_s,
        refused=gateway.parts.basics.metrics.refused_connections.inc,
    )


async def _serve_until_stopped(
    settings: GatewaySettings,
    gateway: Gateway,
    notifier: Notifier,
    listening: socket.socket,
    secure: tuple[socket.socket, CertificateFiles] | None,
) -> int:
    config = configure_gateway(settings, gateway)
    served: list[tuple[uvicorn.Server, socket.socket]] = [(ApiServer(config()), listening)]
    if secure is not None:
        server = TlsServer(config(), secure[1], connections=settings.limits.connections)
        served.append((server, secure[0]))
        log.info("gateway.listening", address=settings.cluster.listen)
    program = Daemon(gateway.parts, notifier, recovers=False, drain_s=0)
    superseded = asyncio.Event()

    async def keep_membership() -> None:
        await gateway.cluster.membership.keep(gateway.continue_adopted_work)
        superseded.set()
        program.stop()

    async with open_task_group() as tasks:
        keeping = tasks.create_task(keep_membership(), name="membership")
        await program.serve(*served)
        keeping.cancel()
    return 3 if superseded.is_set() else 0
