"""Builds every part from the settings and joins them; nothing here decides anything at run time."""

from assayd.wiring.api import ApiConfigs, configure_api
from assayd.wiring.build import Assembly, PartOverrides, build

__all__ = ["ApiConfigs", "Assembly", "PartOverrides", "build", "configure_api"]
