"""Built-in names that guest code cannot replace, for modules of ours that run beside it."""

from __future__ import annotations

import builtins


def isolate(module: dict[str, object]) -> None:
    """Return a module its own copy of the built-in names; holds for functions defined after the call.

    `builtins.len = …` in guest code then changes nothing for them.

    Args:
        module: the caller's ``globals()``.
    """
    module["__builtins__"] = dict(vars(builtins))
