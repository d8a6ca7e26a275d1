"""Determines a source's own attributes, its names of paths, and its code for type checkers.

class A: def exists(self): …          `exists` is an own attribute
here = Path(path)                     `here` is a path
if TYPE_CHECKING: import os           never runs, so it isn't checked
"""

from __future__ import annotations

import ast

from assayd.static.python.scopes import ImportOrigin, NodeSite, Scope, ScopedTree, ScopeKind, resolve

_TYPE_CHECKING = ImportOrigin(module="typing", name="TYPE_CHECKING")
_PATH_CLASSES = frozenset({"Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath"})
_KEEP_PATHS = frozenset({"parent", "joinpath", "with_name", "with_stem", "with_suffix", "relative_to"})


def own_attributes(tree: ScopedTree) -> frozenset[str]:
    """Return the attributes that the source defines in classes or assigns to objects."""
    found: set[str] = set()
    for site in tree.sites:
        match site.node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                inside = site.scope.kind is ScopeKind.CLASS
            case ast.Name(id=name, ctx=ast.Store()):
                inside = site.scope.kind is ScopeKind.CLASS
            case ast.Attribute(attr=name, ctx=ast.Store()):
                inside = True
            case _:
                continue
        if inside:
            found.add(name)
    return frozenset(found)


def path_names(tree: ScopedTree) -> frozenset[str]:
    """Return the names to which the source assigns a path anywhere, or which it annotates as a path."""
    found: set[str] = set()
    for site in tree.sites:
        match site.node:
            case ast.Assign(targets=targets, value=value) if is_path(value, found):
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.NamedExpr(target=ast.Name(id=name), value=value) if is_path(value, found):
                found.add(name)
            case (
                ast.AnnAssign(target=ast.Name(id=name), annotation=annotation)
                | ast.arg(arg=name, annotation=ast.expr() as annotation)
            ) if _last_name(annotation) in _PATH_CLASSES:
                found.add(name)
            case _:
                pass
    return frozenset(found)


def is_path(node: ast.AST, named: set[str] | frozenset[str]) -> bool:
    """Return whether an expression is certainly a path, created by pathlib or derived from a path."""
    while True:
        match node:
            case ast.Call(func=function) if _last_name(function) in _PATH_CLASSES:
                return True
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _KEEP_PATHS:
                node = value
            case ast.Attribute(value=value, attr="parent") | ast.BinOp(left=value, op=ast.Div()):
                node = value
            case ast.Name(id=name):
                return name in named or name in _PATH_CLASSES
            case ast.Attribute(attr=name):
                return name in _PATH_CLASSES
            case _:
                return False


def run_time_nodes(tree: ScopedTree) -> tuple[NodeSite, ...]:
    """Return all nodes except those in ``if TYPE_CHECKING:`` blocks, which are never executed."""
    passed: set[ast.AST] = set()
    for site in tree.sites:
        if isinstance(site.node, ast.If) and _is_type_checking(site, tree):
            passed.update(site.node.body)
    if not passed:
        return tree.sites
    kept: list[NodeSite] = []
    for site in tree.sites:  # Parents come before children.
        if site.parent in passed or site.node in passed:
            passed.add(site.node)
        else:
            kept.append(site)
    return tuple(kept)


def _is_type_checking(site: NodeSite, tree: ScopedTree) -> bool:
    """Return whether a condition is `typing.TYPE_CHECKING`, accessed by a name that isn't rebound."""
    match site.node:
        case ast.If(test=ast.Name(id=name)):
            origin = _TYPE_CHECKING
        case ast.If(test=ast.Attribute(value=ast.Name(id=name), attr="TYPE_CHECKING")):
            origin = ImportOrigin(module="typing")
        case _:
            return False
    # Counting reads the whole tree, so only names that are this import are counted.
    is_typing = resolve(name, site.scope).origins == {origin}
    return is_typing and sum(_binds_name(other.node, name) for other in tree.sites) == 1


def _binds_name(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return any((alias.asname or alias.name.partition(".")[0]) == name for alias in names)
        case ast.Name(id=bound, ctx=ast.Store() | ast.Del()) | ast.arg(arg=bound):
            return bound == name
        case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound) | ast.ClassDef(name=bound):
            return bound == name
        case ast.ExceptHandler(name=bound) | ast.MatchAs(name=bound) | ast.MatchStar(name=bound):
            return bound == name
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return name in names
        case _:
            return False


_TUPLE_MAKERS = frozenset({"collections.namedtuple", "typing.NamedTuple"})
_MOST_BASES = 20


def has_known_fields(node: ast.expr, scope: Scope, tree: ScopedTree) -> bool:
    """Return whether the source shows which fields of a class a pattern can read.

    If a class is created by a call, patterns can read any attribute; only `namedtuple` restricts fields to
    plain names.
    """
    pending, seen = [node], set[str]()
    while pending and len(seen) < _MOST_BASES:
        one = pending.pop()
        one = one.value if isinstance(one, ast.Subscript) else one
        if not isinstance(one, ast.Name):
            if _is_module_attribute(one, scope):
                continue
            return False
        if one.id in seen:
            continue
        seen.add(one.id)
        binding = [site for site in tree.sites if _binds_name(site.node, one.id)]
        match [site.node for site in binding]:
            case [] | [ast.Import() | ast.ImportFrom()]:
                continue
            case [ast.ClassDef(bases=bases, decorator_list=decorators)] if all(
                map(_is_fields_decorator, decorators)
            ):
                pending.extend(bases)
            case [ast.Name() as target] if _is_namedtuple(tree.parent(target), scope):
                continue
            case _:
                return False
    return not pending


def _is_module_attribute(node: ast.expr, scope: Scope) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and bool(resolve(node.id, scope).origins)


def _is_fields_decorator(decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return _last_name(function) in {"dataclass", "total_ordering", "unique", "final", "runtime_checkable"}


def _is_namedtuple(node: ast.AST | None, scope: Scope) -> bool:
    match node:
        case ast.Assign(value=ast.Call(func=ast.Name(id=name))):
            origins = resolve(name, scope).origins
            return bool(origins) and {f"{o.module}.{o.name}" for o in origins} <= _TUPLE_MAKERS
        case ast.Assign(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr))):
            origins = resolve(name, scope).origins
            return bool(origins) and {f"{o.module}.{attr}" for o in origins} <= _TUPLE_MAKERS
        case _:
            return False


def _last_name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Constant(value=str(name)):
            return name.rpartition(".")[2]
        case _:
            return ""
