"""The program that reads bash, as the checks see it: text in, tree or complaint out.

Checks run no program. Whoever runs them (the analysis worker) installs one that does, once per process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assayd.errors import AssaydError


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the program said of a text: its tree as JSON, or why there is none.

    `line` and `column` are 1-based, the column in bytes; None when the text as a whole was too much.
    """

    tree: bytes | None = None
    message: str = ""
    line: int | None = None
    column: int | None = None


Reader = Callable[[str], Reading]

_installed: list[Reader] = []


def install(reader: Reader) -> None:
    """Have all later texts read by `reader`."""
    _installed[:] = [reader]


def read(text: str) -> Reading:
    """Read a text.

    Raises: AssaydError ``analysis.no_reader`` when none was installed.
    """
    if not _installed:
        raise AssaydError("analysis.no_reader", "nothing that reads bash was installed in this process")
    return _installed[0](text)
