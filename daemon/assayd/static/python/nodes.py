"""Walks a syntax tree once and shares the list of nodes among all checks."""

from __future__ import annotations

import ast
from collections.abc import Sequence


def nodes_of(tree: ast.Module) -> Sequence[ast.AST]:
    """Return the nodes below a module in the order of `ast.walk`. The tree must not be changed afterwards.

    The list is stored as an attribute of the tree. Because the nodes don't refer to the tree, no reference
    cycle delays the deallocation.
    """
    found: Sequence[ast.AST] | None = getattr(tree, "_nodes_below", None)
    if found is None:
        found = tuple(ast.walk(tree))[1:]
        tree._nodes_below = found  # type: ignore[attr-defined]
    return found
