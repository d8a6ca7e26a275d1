"""Submitted texts with their file names in exceptions and tracebacks."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Texts = Mapping[str, "ShownText"]
    """Submitted texts by the file name that they were compiled under; only their frames are shown."""


class ShownText:
    """A submitted text with its file name in exceptions and tracebacks."""

    __slots__ = ("name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
