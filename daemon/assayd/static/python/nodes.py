"""Walks a syntax tree once, for all checks that look at each of its nodes."""

from __future__ import annotations

import ast
from collections.abc import Sequence


def nodes_of(tree: ast.Module) -> Sequence[ast.AST]:
    """Return the nodes below a module, in the order of `ast.walk`; the tree must not be changed afterwards.

    The tree keeps them: they don't refer to it, so no cycle delays its end.
    """
    found: Sequence[ast.AST] | None = getattr(tree, "_nodes_below", None)
    if found is None:
        found = tuple(ast.walk(tree))[1:]
        tree._nodes_below = found  # type: ignore[attr-defined]
    return found
