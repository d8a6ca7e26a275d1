"""Reads the types in annotations without evaluating them.

This module supports unions, `Optional`, `Annotated`, quoted annotations and module-level aliases. For other
annotations, the source text is used as the name.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from assayd.model.text_limits import shorten

_UNIONS = frozenset({"Union", "Optional"})
_WRAPPERS = frozenset({"Annotated", "Final", "ClassVar"})


def annotation_aliases(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the module-level aliases for annotations, e.g. ``Row = dict[str, str]`` or a TypedDict."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
            case ast.ClassDef(name=name, bases=[base]):
                found[name] = base
            case _:
                pass
    return found


def alternatives(annotation: ast.expr, aliases: Mapping[str, ast.expr]) -> frozenset[str]:
    """Return the names of the types that an annotation allows, without parameters and modules.

    Each alias is followed only once, so that recursive aliases terminate.
    """
    found: set[str] = set()
    followed: set[str] = set()
    pending = [annotation]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and node.id in aliases and node.id not in followed:
            followed.add(node.id)
            pending.append(aliases[node.id])
            continue
        names, inner = _read(node)
        found.update(names)
        pending.extend(inner)
    return frozenset(found - followed)


def _read(node: ast.expr) -> tuple[list[str], list[ast.expr]]:
    """Return the types that a node itself names, and its nested annotations."""
    match node:
        case ast.Constant(value=None):
            return ["None"], []
        case ast.Constant(value=str(text)):
            quoted = _parse_or_none(text)
            return ([shorten(text, 60)], []) if quoted is None else ([], [quoted])
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return [name], []
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return [], [left, right]
        case ast.Subscript(value=value, slice=inner):
            return _read_subscript(value, inner)
        case _:
            return ["something else"], []


def _read_subscript(value: ast.expr, inner: ast.expr) -> tuple[list[str], list[ast.expr]]:
    name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if name in _WRAPPERS:
        return [], parts[:1]
    if name in _UNIONS:
        return ["None"] if name == "Optional" else [], parts
    return [], [value]


def _parse_or_none(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
