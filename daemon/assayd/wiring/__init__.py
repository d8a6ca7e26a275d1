"""Builds all parts from the settings and connects them. It makes no decisions at run time."""

from assayd.wiring.api import ApiConfigs, access_of, application, configure_api
from assayd.wiring.basics import Basics, PartOverrides
from assayd.wiring.build import OWN, Assembly, build

__all__ = [
    "OWN",
    "ApiConfigs",
    "access_of",
    "application",
    "Assembly",
    "Basics",
    "PartOverrides",
    "build",
    "configure_api",
]
