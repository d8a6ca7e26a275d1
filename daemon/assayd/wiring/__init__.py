"""Builds every part from the settings and joins them; nothing here decides anything at run time."""

from assayd.wiring.api import ApiConfigs, configure_api
from assayd.wiring.build import Assembly, Overrides, build

__all__ = ["ApiConfigs", "Assembly", "Overrides", "build", "configure_api"]
