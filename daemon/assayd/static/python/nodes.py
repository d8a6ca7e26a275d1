"""Walks a syntax tree once, for all checks that examine every node."""

from __future__ import annotations

import ast
from collections.abc import Sequence


def nodes_of(tree: ast.Module) -> Sequence[ast.AST]:
    """Return the nodes below a module, in the order of `ast.walk`; the tree must not be changed afterwards.

    The list is stored in the tree. The nodes don't refer to the tree, so no reference cycle delays its
    deallocation.
    """
    found: Sequence[ast.AST] | None = getattr(tree, "_nodes_below", None)
    if found is None:
        found = tuple(ast.walk(tree))[1:]
        tree._nodes_below = found  # type: ignore[attr-defined]
    return found
