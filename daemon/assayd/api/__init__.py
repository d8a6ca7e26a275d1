"""The daemon's HTTP interface on its Unix socket: permissions, requests and responses."""

from assayd.api.app import build_loopback_config, build_server_config, create_app
from assayd.api.call import ApiLimits
from assayd.api.peer import ApiServer, Caller, SocketAccess

__all__ = [
    "ApiLimits",
    "ApiServer",
    "Caller",
    "SocketAccess",
    "create_app",
    "build_loopback_config",
    "build_server_config",
]
