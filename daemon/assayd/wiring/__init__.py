"""Builds all parts from the settings and connects them. It makes no decisions at run time."""

from assayd.wiring.basics import CoreParts, PartOverrides
from assayd.wiring.build import (
    OWN,
    ApiConfigs,
    Assembly,
    build_application,
    build_daemon,
    build_socket_access,
    configure_api,
)

__all__ = [
    "OWN",
    "ApiConfigs",
    "build_socket_access",
    "build_application",
    "Assembly",
    "CoreParts",
    "PartOverrides",
    "build_daemon",
    "configure_api",
]
