"""Builds the API on the parts."""

from __future__ import annotations

import grp
import os
from dataclasses import dataclass

import uvicorn

from assayd.api import SocketAccess, create_app, loopback_config, server_config
from assayd.settings import Settings
from assayd.wiring.build import Assembly
from assayd.wiring.from_kinds import routers_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiConfigs:
    """The servers: one for the socket, one for the metrics on a loopback address."""

    socket: uvicorn.Config
    metrics: uvicorn.Config


def configure_api(settings: Settings, parts: Assembly) -> ApiConfigs:
    """Return the servers on these parts."""
    access = _access(settings)
    app = create_app(
        parts.service,
        parts.batches,
        parts.repairs,
        generations=parts.generations,
        library=parts.library,
        access=access,
        limits=parts.limits.api,
        metrics=parts.metrics,
        routers=routers_of(parts.shared.kinds),
        budget=parts.scheduler.budget,
    )
    limits = settings.limits
    return ApiConfigs(
        socket=server_config(app, access, connections=limits.connections, silence_s=limits.silence_s),
        metrics=loopback_config(parts.service.metrics),
    )


def _access(settings: Settings) -> SocketAccess:
    """Return who may connect, and who sees everything."""
    group = settings.access.operators_group
    return SocketAccess(
        uids=frozenset(settings.access.uids),
        gids=frozenset(settings.access.gids),
        operators_gid=grp.getgrnam(group).gr_gid if group else None,
        own_uid=os.geteuid(),
    )
