"""Builds all parts from the settings and connects them. It makes no decisions at run time."""

from assayd.wiring.api import ApiConfigs, build_application, build_socket_access, configure_api
from assayd.wiring.basics import CoreParts, PartOverrides
from assayd.wiring.build import OWN, Assembly, build_daemon

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
