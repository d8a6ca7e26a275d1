"""Submitted texts, as exceptions show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShownText:
    """A submitted text, and the name that it is shown by."""

    name: str
    text: str


Texts = Mapping[str, ShownText]
"""Submitted texts by the file name that they were compiled under; only their frames are shown."""
