"""The interface to the program that explains mistakes in bash: it takes text and returns comments.

Checks run no programs. An analysis worker installs the function that does; without one, there are no
comments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class LinterComment:
    """A ShellCheck comment with its code and position; lines and columns are 1-based, the end exclusive.

    As in ShellCheck, a tab is counted as up to eight columns.
    """

    code: int
    line: int
    column: int
    end_line: int
    end_column: int


Linter = Callable[[str], tuple[LinterComment, ...]]

_installed: list[Linter] = []


def install_linter(linter: Linter) -> None:
    """Set the function that later calls of `comments` use."""
    _installed[:] = [linter]
    lint.cache_clear()


@lru_cache(maxsize=16)
def lint(text: str) -> tuple[LinterComment, ...]:
    """Return the comments on a script; empty if no function is installed."""
    return _installed[0](text) if _installed else ()
