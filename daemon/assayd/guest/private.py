"""Built-in names that guest code can't replace, for trusted modules in the same process."""

from __future__ import annotations

import builtins

NAMES = dict(vars(builtins))
"""One copy for all of our modules, made before any guest code runs."""


def isolate(module: dict[str, object]) -> None:
    """Copy the built-in names for a module; applies to functions defined after the call.

    `builtins.len = …` in guest code then changes nothing for them.

    Args:
        module: the caller's ``globals()``.
    """
    module["__builtins__"] = NAMES
