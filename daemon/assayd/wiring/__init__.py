"""Builds every part from the settings and joins them; nothing here decides anything at run time."""

from assayd.wiring.build import Assembly, build

__all__ = ["Assembly", "build"]
