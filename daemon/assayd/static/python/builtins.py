"""The security scan's rules on plain names: refused builtins, special names, uses of ``type``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from assayd.model.finding import Finding
from assayd.static.python.names import ASSIGNABLE_DUNDERS, BUILTINS, BY_NAME, READABLE_DUNDERS, is_dunder
from assayd.static.python.scopes import Site, resolve
from assayd.static.python.view import View


def check_name(view: View, site: Site) -> Iterator[Finding]:
    """``run = eval`` -> builtin.not_allowed; ``__builtins__`` -> name.dunder."""
    node = site.node
    if not isinstance(node, ast.Name):
        return
    loaded = isinstance(node.ctx, ast.Load)
    allowed = READABLE_DUNDERS | ASSIGNABLE_DUNDERS if loaded else ASSIGNABLE_DUNDERS
    if is_dunder(node.id) and node.id not in allowed and node.id not in BUILTINS:
        yield view.dunder_name(node, node.id)
    if not loaded or not resolve(node.id, site.scope).may_be_builtin:
        return
    if node.id in BUILTINS:
        message = f"{node.id!r} may not be used: {BUILTINS[node.id]}."
        yield view.error(node, "builtin.not_allowed", message, _instead_of(node.id))
    elif node.id in BY_NAME and not _is_called(view, node):
        message = f"{node.id!r} may only be called, with the attribute's name in plain text."
        yield view.error(node, "builtin.not_allowed", message, f'Write {node.id}(x, "name", …).')
    elif node.id == "type" and not _type_asks(view, node):
        message = "'type' may only be asked for the type of one value; it makes classes, too."
        yield view.error(node, "builtin.not_allowed", message, "Write type(x), or a class statement.")


def check_type_call(view: View, site: Site) -> Iterator[Finding]:
    """``type(x)("T", (), {})`` -> builtin.not_allowed."""
    node = site.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Call):
        if view.is_builtin(node.func.func, "type", site.scope) and _spreads(node, 3):
            message = "A class is made by calling a type."
            yield view.error(node, "builtin.not_allowed", message, "Write a class statement.")


def _instead_of(builtin: str) -> str:
    if builtin == "open":
        return "The code gets its input as arguments; there are no files to open."
    if builtin == "compile":
        return "For patterns write re.compile(…); do without it otherwise."
    return f"Do without it; for a variable choose another name than {builtin}."


def _is_called(view: View, node: ast.AST) -> bool:
    parent = view.tree.parent(node)
    return isinstance(parent, ast.Call) and parent.func is node


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
