"""The interface to the program that parses bash: it takes text and returns a tree or an error.

Checks don't run programs. The analysis worker installs the function that runs the parser, once per process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assayd.errors import AssaydError


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseResult:
    """The result of parsing, which is a tree as JSON or an error.

    `line` and `column` are 1-based, with the column counted in bytes; they are None if the whole text
    exceeded a limit.
    """

    tree: bytes | None = None
    message: str = ""
    line: int | None = None
    column: int | None = None


Reader = Callable[[str], ParseResult]

_installed: list[Reader] = []


def install_reader(reader: Reader) -> None:
    """Set the function that later calls of `read` use."""
    _installed[:] = [reader]


def parse_script(text: str) -> ParseResult:
    """Parse a script.

    Raises: AssaydError ``analysis.no_reader``, if no function is installed.
    """
    if not _installed:
        raise AssaydError("analysis.no_reader", "nothing that reads bash was installed in this process")
    return _installed[0](text)
