"""The program that explains slips in bash, as the checks see it: text in, comments out.

Checks run no program. An analysis worker installs one that does; without it there are no comments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """One comment: ShellCheck's code, and where; lines and columns are 1-based, the end is exclusive.

    Columns count a tab as up to eight characters, as ShellCheck does.
    """

    code: int
    line: int
    column: int
    end_line: int
    end_column: int


Linter = Callable[[str], tuple[Comment, ...]]

_installed: list[Linter] = []


def install(linter: Linter) -> None:
    """Have all later scripts explained by `linter`."""
    _installed[:] = [linter]
    comments.cache_clear()


@lru_cache(maxsize=16)
def comments(text: str) -> tuple[Comment, ...]:
    """Return the comments on a script; none if no program was installed."""
    return _installed[0](text) if _installed else ()
