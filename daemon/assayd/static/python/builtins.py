"""The security scan's rules on plain names: refused builtins, special names, uses of ``type``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from assayd.model.finding import Finding
from assayd.static.python.names import (
    BUILTINS,
    INTERNALS,
    READABLE_DUNDERS,
    is_dunder,
    may_bind,
    may_read_own,
)
from assayd.static.python.scopes import NodeSite, ScopeKind, resolve
from assayd.static.python.view import View


def check_name(view: View, site: NodeSite) -> Iterator[Finding]:
    """``run = eval`` -> builtin.not_allowed; ``__builtins__`` -> name.dunder."""
    node = site.node
    if not isinstance(node, ast.Name):
        return
    loaded = isinstance(node.ctx, ast.Load)
    if is_dunder(node.id) and node.id not in BUILTINS and not _may_be(node.id, loaded):
        yield view.dunder_name(node, node.id)
    if not loaded and site.scope.kind is ScopeKind.CLASS and INTERNALS.fullmatch(node.id):
        # As a field of a class it could be taken by a pattern without being named.
        message = f"{node.id!r} exposes the internals of running code."
        yield view.error(node, "attribute.internal", message, "Choose another name.")
    found = resolve(node.id, site.scope)
    if not loaded or not found.may_be_builtin or (found.shadowed and not is_dunder(node.id)):
        return
    if node.id in BUILTINS:
        message = f"{node.id!r} isn't allowed: {BUILTINS[node.id]}."
        yield view.error(node, "builtin.not_allowed", message, _instead_of(node.id))
    elif node.id == "vars" and not _asks_for_one(view, node):
        message = "'vars' is allowed only for the fields of one object."
        yield view.error(node, "builtin.not_allowed", message, "Write vars(x), or build the dict.")
    elif node.id == "type" and not _type_asks(view, node):
        message = "'type' is allowed only with one argument; with more it creates classes."
        yield view.error(node, "builtin.not_allowed", message, "Write type(x), or a class statement.")


def check_type_call(view: View, site: NodeSite) -> Iterator[Finding]:
    """``type(x)("T", (), {})`` -> builtin.not_allowed."""
    match site.node:
        case ast.Call(func=ast.Call(func=ast.Name() as maker), args=[_, ast.Tuple(), ast.Dict()]) as node:
            makes = view.is_builtin(maker, "type", site.scope)
        case _:
            return
    if makes:
        message = "A class is created by calling a type."
        yield view.error(node, "builtin.not_allowed", message, "Write a class statement.")


def _instead_of(builtin: str) -> str:
    if builtin == "open":
        return "Use the arguments: no files can be opened."
    if builtin == "compile":
        return "Use re.compile(…) for patterns; otherwise remove it."
    if builtin in {"globals", "locals"}:
        return "Build a dict with the needed values."
    return f"Remove it, or rename your variable {builtin}."


def _may_be(name: str, loaded: bool) -> bool:
    """Return whether a special name may be read, or bound."""
    readable = name in READABLE_DUNDERS or may_read_own(name)
    return readable if loaded else may_bind(name)


def _asks_for_one(view: View, node: ast.AST) -> bool:
    match view.tree.parent(node):
        case ast.Call(func=func, args=[argument], keywords=[]) if func is node:
            return not isinstance(argument, ast.Starred)
        case _:
            return False


def _type_asks(view: View, node: ast.Name) -> bool:
    """Return whether ``type`` only asks: called with one value, compared, in an annotation, as a key."""
    parent = view.tree.parent(node)
    if isinstance(parent, ast.Tuple):
        parent = view.tree.parent(parent)
    match parent:
        case ast.Call() if parent.func is node:
            asks = not _spreads(parent, 2)
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass" | "map")):
            asks = True
        case ast.keyword(arg="key") | ast.Compare() | ast.arg() | ast.Subscript() | ast.BinOp():
            asks = True
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            asks = parent.returns is node
        case ast.AnnAssign():
            asks = parent.annotation is node
        case _:
            asks = False
    return asks


def _spreads(call: ast.Call, count: int) -> bool:
    """Return whether a call has, or may have, so many arguments."""
    spread = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
    return spread or len(call.args) + len(call.keywords) >= count
