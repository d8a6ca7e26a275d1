"""Builds every part from the settings and joins them; nothing here decides anything at run time."""

from assayd.assembly.build import Assembly, build

__all__ = ["Assembly", "build"]
