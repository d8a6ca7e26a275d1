"""The daemon's HTTP interface on its Unix socket: permissions, requests and responses."""

from assayd.api.app import create_app, server_config
from assayd.api.call import ApiLimits
from assayd.api.loopback import loopback_config
from assayd.api.peer import ApiServer, Caller, SocketAccess

__all__ = [
    "ApiLimits",
    "ApiServer",
    "Caller",
    "SocketAccess",
    "create_app",
    "loopback_config",
    "server_config",
]
