"""Analyses the module level of a source: statements, bound names, and the line for new imports."""

from __future__ import annotations

import ast
import keyword
import unicodedata
from collections.abc import Collection, Iterator
from functools import lru_cache

from assayd.static.python.nodes import nodes_of

_OTHER_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def module_statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of the module's scope in order, including those inside nested blocks."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, _OTHER_SCOPES):
            inner = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
            pending.extend(reversed(inner))


@lru_cache(maxsize=2)
def annotated(tree: ast.Module) -> tuple[tuple[str, ast.AnnAssign], ...]:
    """Return every annotated name of the module's scope with its annotating statement, in source order."""
    return tuple(
        (node.target.id, node)
        for node in module_statements(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    )


def bound_names(tree: ast.Module, leaving_out: Collection[ast.AST] = ()) -> frozenset[str] | None:
    """Return every name that the source binds, or None if a star import binds unknown names.

    Args:
        tree: the syntax tree.
        leaving_out: nodes to ignore.
    """
    found: set[str] = set()
    passed = {id(node) for node in leaving_out}
    for node in nodes_of(tree):
        if id(node) in passed:
            continue
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {(alias.asname or alias.name).partition(".")[0] for alias in names}
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                found.add(name)
            case _:
                pass
    return None if "*" in found else frozenset(found)


def is_variable(name: str) -> bool:
    """Return whether a name can be a variable, has no leading `__`, and isn't changed by normalization."""
    plain = unicodedata.normalize("NFKC", name) == name
    return plain and name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")


def insertion_line(tree: ast.Module) -> int:
    """Return the line number for a new import, after the docstring and the ``__future__`` imports."""
    for place, statement in enumerate(tree.body):
        docstring = (
            place == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        )
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not docstring and not future:
            decorators = statement.decorator_list if isinstance(statement, _OTHER_SCOPES) else []
            return min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return (tree.body[-1].end_lineno or tree.body[-1].lineno) + 1
