"""Builds the API application and the configuration of its servers."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Sequence
from dataclasses import dataclass

import uvicorn
from fastapi import APIRouter, FastAPI

from assayd.api import SocketAccess, build_loopback_config, build_server_config, create_app
from assayd.api.bounded_http import ConnectionSlots
from assayd.settings import Settings
from assayd.wiring.build import Assembly
from assayd.wiring.wings import load_routers

WORKER_USER = "assayd-node"
"""The user of the systemd service that runs the worker of a cluster's node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiConfigs:
    """The configurations of the servers: one on the socket, and one for metrics on a loopback address."""

    socket: uvicorn.Config
    metrics: uvicorn.Config


def configure_api(settings: Settings, parts: Assembly) -> ApiConfigs:
    """Return the configurations of the API server and the metrics server."""
    access, limits = build_socket_access(settings), settings.limits
    app = build_application(parts, access)
    places = ConnectionSlots(limits.connections)
    parts.metrics.connections.set_function(lambda: places.total)
    return ApiConfigs(
        socket=build_server_config(
            app,
            access,
            places=places,
            silence_s=limits.silence_s,
            refused=parts.metrics.refused_connections.inc,
        ),
        metrics=build_loopback_config(parts.service.metrics),
    )


def build_application(parts: Assembly, access: SocketAccess, routers: Sequence[APIRouter] = ()) -> FastAPI:
    """Return the API application with the daemon's routers and the additional `routers`."""
    return create_app(
        parts.service,
        parts.batches,
        chains=parts.chains,
        workflows=parts.workflows,
        library=parts.library,
        trials=parts.trials,
        access=access,
        limits=parts.limits.api,
        metrics=parts.metrics,
        routers=(*parts.wing_routers, *load_routers(parts.kinds), *routers),
        budget=parts.scheduler.budget,
        audit=parts.audit,
        tracing=parts.tracing,
    )


def build_socket_access(settings: Settings) -> SocketAccess:
    """Return the rules that determine which users can connect and which users can see everything."""
    group = settings.access.operators_group
    return SocketAccess(
        uids=frozenset(settings.access.uids),
        gids=frozenset(settings.access.gids),
        operators_gid=grp.getgrnam(group).gr_gid if group else None,
        own_uid=os.geteuid(),
        worker_uid=_find_worker_uid(),
    )


def _find_worker_uid() -> int | None:
    """Return the user of the service `assayd-node`, or None if this host doesn't have that user."""
    try:
        return pwd.getpwnam(WORKER_USER).pw_uid
    except KeyError:
        return None
