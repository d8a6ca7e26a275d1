"""Which server tests run against: a daemon, or a gateway with a cluster behind it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from support.cluster.gateway_process import GatewayProcess
from support.daemons.daemon_process import DaemonProcess

BEHIND_GATEWAY = os.environ.get("TESTS_BEHIND") == "gateway"


def new_daemon(
    engine: str, *, settings: Mapping[str, str] | None = None, state: Path | None = None
) -> DaemonProcess:
    """Create a daemon on an engine, or a gateway, without starting it."""
    chosen = GatewayProcess if BEHIND_GATEWAY else DaemonProcess
    return chosen(engine, settings=settings, state=state)
