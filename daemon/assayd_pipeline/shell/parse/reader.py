"""The interfaces to the programs that parse bash and explain mistakes in it.

The interface to the program that parses bash: it takes text and returns a tree or an error.

Checks don't run programs. The analysis worker installs the function that runs the parser, once per process.

The interface to the program that explains mistakes in bash: it takes text and returns comments.

Checks run no programs. An analysis worker installs the function that does; without one, there are no
comments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

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
    """Set the function that later calls of `parse_script` use."""
    _installed[:] = [reader]


def parse_script(text: str) -> ParseResult:
    """Parse a script with the installed function, and return its tree or the syntax error.

    Raises: AssaydError ``analysis.no_reader``, if no function is installed.
    """
    if not _installed:
        raise AssaydError("analysis.no_reader", "nothing that reads bash was installed in this process")
    return _installed[0](text)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinterComment:
    """A ShellCheck comment with its code and position. Lines and columns are 1-based; the end is exclusive.

    As in ShellCheck, a tab is counted as up to eight columns.
    """

    code: int
    line: int
    column: int
    end_line: int
    end_column: int


Linter = Callable[[str], tuple[LinterComment, ...]]

_installed_linter: list[Linter] = []


def install_linter(linter: Linter) -> None:
    """Set the function that later calls of `lint` use."""
    _installed_linter[:] = [linter]
    lint.cache_clear()


@lru_cache(maxsize=16)
def lint(text: str) -> tuple[LinterComment, ...]:
    """Return the comments on a script, or an empty tuple if no function is installed."""
    return _installed_linter[0](text) if _installed_linter else ()
