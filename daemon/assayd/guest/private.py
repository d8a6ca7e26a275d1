"""Prevents guest code from replacing built-in names for trusted modules in the same process."""

from __future__ import annotations

import builtins

NAMES = dict(vars(builtins))
"""One copy for all of our modules, made before any guest code runs."""


def isolate_builtins(module: dict[str, object]) -> None:
    """Give a module a copy of the built-in names, for functions defined after the call.

    In these functions, `builtins.len = …` in guest code has no effect.

    Args:
        module: the caller's ``globals()``.
    """
    module["__builtins__"] = NAMES
