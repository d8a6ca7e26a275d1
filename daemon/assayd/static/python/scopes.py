"""Finds all possible bindings of names by Python's scoping rules, without running code.

This module makes no policy decisions. Some bindings are decided only at run time, such as those in a class
body, or of a module-level name that is read before it is bound. For these, the module returns all
possibilities.

Functions for the module level return its statements, its bound names, and the line for new
imports.
"""

from __future__ import annotations

import ast
import keyword
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache


def list_nodes(tree: ast.Module) -> Sequence[ast.AST]:
    """Return the nodes below a module in the order of `ast.walk`. The tree must not be changed afterwards.

    The list is stored as an attribute of the tree. Because the nodes don't refer to the tree, no reference
    cycle delays the deallocation.
    """
    found: Sequence[ast.AST] | None = getattr(tree, "_nodes_below", None)
    if found is None:
        found = tuple(ast.walk(tree))[1:]
        tree._nodes_below = found  # type: ignore[attr-defined]
    return found


class ScopeKind(Enum):
    """The kind of construct that opens a scope, such as a function or a class."""

    MODULE = "module"
    """The module; a name that isn't bound here may be a builtin."""
    FUNCTION = "function"
    """A function or lambda; a name bound here has no other meaning."""
    COMPREHENSION = "comprehension"
    """Like a function, except that the walrus operator binds outside."""
    CLASS = "class"
    """A class body: nested scopes can't see its names, and a name may also be found outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOrigin:
    """The object that an import binds: a module or, if `name` is set, an attribute of the module."""

    module: str
    name: str | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Scope:
    """A scope, with all names that the scope binds."""

    kind: ScopeKind
    parent: Scope | None = None
    class_name: str | None = None
    bound: set[str] = field(default_factory=set)
    imports: dict[str, set[ImportOrigin]] = field(default_factory=dict)
    declared_global: set[str] = field(default_factory=set)
    declared_nonlocal: set[str] = field(default_factory=set)

    def bind(self, name: str, origin: ImportOrigin | None = None) -> None:
        """Record that a name is bound in this scope."""
        name = self.mangle(name)
        self.bound.add(name)
        if origin is not None:
            self.imports.setdefault(name, set()).add(origin)

    def mangle(self, name: str) -> str:
        """Return a name as the compiler stores it: a private name in a class gets the class's prefix."""
        if self.class_name is None or not name.startswith("__") or name.endswith("__"):
            return name
        owner = self.class_name.lstrip("_")
        return f"_{owner}{name}" if owner else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The possible meanings of a name. The attribute `origins` contains its bindings by imports.

    The attribute `shadowed` is True if the source also binds the name at module level; the name then
    probably doesn't refer to the builtin.
    """

    origins: frozenset[ImportOrigin]
    may_be_builtin: bool
    shadowed: bool = False


@dataclass(frozen=True, slots=True)
class NodeSite:
    """A node, with its parent and the scope in which the node's names are looked up."""

    node: ast.AST
    parent: ast.AST | None
    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedTree:
    """The nodes of a syntax tree with their scopes, in an order in which parents precede their children."""

    sites: tuple[NodeSite, ...]
    parents: Mapping[ast.AST, ast.AST | None]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the parent of a node, or None for the module and for nodes outside of the tree."""
        return self.parents.get(node)


def build_scoped_tree(tree: ast.Module) -> ScopedTree:
    """Return the nodes of a tree with their scopes, which contain all bindings.

    The tree is walked without recursion.
    """
    module = Scope(kind=ScopeKind.MODULE)
    scopes = {module: None}
    sites: list[NodeSite] = []
    pending = [NodeSite(tree, None, module)]
    while pending:
        site = pending.pop()
        sites.append(site)
        _bind_names(site.node, site.scope)
        children = list(_iter_children(site))
        scopes.update(dict.fromkeys(child.scope for child in children))
        pending.extend(reversed(children))
    for scope in scopes:
        _move_declared_bindings(scope, module)
    return ScopedTree(sites=tuple(sites), parents={site.node: site.parent for site in sites})


def resolve_name(name: str, scope: Scope) -> Resolution:
    """Return all possible meanings of a name that is read in a scope."""
    name = scope.mangle(name)
    origins: set[ImportOrigin] = set()
    shadowed = False
    for place in _iter_scopes(name, scope):
        origins |= place.imports.get(name, set())
        shadowed = place.kind is ScopeKind.MODULE and name in place.bound
        if name in place.bound and place.kind in (ScopeKind.FUNCTION, ScopeKind.COMPREHENSION):
            return Resolution(origins=frozenset(origins), may_be_builtin=False)
    return Resolution(origins=frozenset(origins), may_be_builtin=True, shadowed=shadowed)


def _iter_scopes(name: str, scope: Scope) -> Iterator[Scope]:
    """Yield the scopes in which a name is looked up, beginning with the innermost scope."""
    current: Scope | None = scope
    to_module = False
    while current is not None:
        to_module = to_module or name in current.declared_global
        is_module = current.kind is ScopeKind.MODULE
        hidden = current.kind is ScopeKind.CLASS and current is not scope
        if is_module or not (to_module or hidden or name in current.declared_nonlocal):
            yield current
        current = current.parent


def _move_declared_bindings(scope: Scope, module: Scope) -> None:
    """Copy a scope's bindings of `global` and `nonlocal` names to the scopes that own these names."""
    for name in scope.bound & (scope.declared_global | scope.declared_nonlocal):
        owner = module if name in scope.declared_global else _find_nonlocal_owner(name, scope.parent)
        if owner is not None:
            owner.bound.add(name)
            owner.imports.setdefault(name, set()).update(scope.imports.get(name, set()))


def _find_nonlocal_owner(name: str, scope: Scope | None) -> Scope | None:
    """Return the function scope that owns a `nonlocal` name, or None if no enclosing function binds it."""
    while scope is not None:
        if scope.kind is ScopeKind.FUNCTION and name in scope.bound - scope.declared_nonlocal:
            return scope
        scope = scope.parent
    return None


def _bind_names(node: ast.AST, scope: Scope) -> None:
    """Record the names that a node binds or declares as `global` or `nonlocal`."""
    match node:
        case ast.Import() | ast.ImportFrom():
            _bind_imports(node, scope)
        case ast.Global():
            scope.declared_global.update(map(scope.mangle, node.names))
        case ast.Nonlocal():
            scope.declared_nonlocal.update(map(scope.mangle, node.names))
        case _:
            name = _get_bound_name(node)
            if name is not None:
                scope.bind(name)


def _bind_imports(node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
    for alias in node.names:
        if isinstance(node, ast.Import):
            package = alias.name.partition(".")[0]
            scope.bind(alias.asname or package, ImportOrigin(module=alias.name if alias.asname else package))
        elif node.module is not None and not node.level:
            scope.bind(alias.asname or alias.name, ImportOrigin(module=node.module, name=alias.name))


def _get_bound_name(node: ast.AST) -> str | None:
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del()):
            return node.id
        case ast.arg():
            return node.arg
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.name
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            return node.name
        case ast.MatchMapping():
            return node.rest
        case _:
            return None


def _iter_children(site: NodeSite) -> Iterator[NodeSite]:
    """Yield a node's children, each with the scope in which Python evaluates it."""
    node, scope = site.node, site.scope
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            yield from _iter_function_children(node, scope)
        case ast.ClassDef():
            inner = Scope(kind=ScopeKind.CLASS, parent=scope, class_name=node.name)
            yield from _split_children(node, scope, inner)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            inner = Scope(kind=ScopeKind.COMPREHENSION, parent=scope, class_name=scope.class_name)
            for child in ast.iter_child_nodes(node):
                yield NodeSite(child, node, inner)
        case ast.comprehension():
            yield from _iter_comprehension_children(node, site)
        case ast.NamedExpr():
            yield NodeSite(node.target, node, _skip_comprehensions(scope))
            yield NodeSite(node.value, node, scope)
        case ast.arguments() | ast.arg():
            return
        case _:
            for child in ast.iter_child_nodes(node):
                yield NodeSite(child, node, scope)


def _iter_function_children(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope
) -> Iterator[NodeSite]:
    """Yield a function's children. Only parameters and body belong to the inner scope."""
    inner = Scope(kind=ScopeKind.FUNCTION, parent=scope, class_name=scope.class_name)
    spec = node.args
    parameters = [
        *spec.posonlyargs,
        *spec.args,
        *spec.kwonlyargs,
        *(p for p in (spec.vararg, spec.kwarg) if p is not None),
    ]
    yield NodeSite(spec, node, inner)
    for parameter in parameters:
        yield NodeSite(parameter, spec, inner)
        if parameter.annotation is not None:
            yield NodeSite(parameter.annotation, parameter, scope)
    for default in (*spec.defaults, *spec.kw_defaults):
        if default is not None:
            yield NodeSite(default, spec, scope)
    for child in _split_children(node, scope, inner):
        if child.node is not spec:
            yield child


def _split_children(node: ast.AST, outside: Scope, inside: Scope) -> Iterator[NodeSite]:
    """Yield the body's nodes in one scope and all other children of the node in another scope."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield NodeSite(child, node, inside if name == "body" else outside)


def _iter_comprehension_children(node: ast.comprehension, site: NodeSite) -> Iterator[NodeSite]:
    """Yield the parts of a comprehension, of which the first iterable is evaluated in the outer scope."""
    holder, outer = site.parent, site.scope.parent
    generators = getattr(holder, "generators", [])
    first = bool(generators) and generators[0] is node
    for child in ast.iter_child_nodes(node):
        outside = first and child is node.iter and outer is not None
        yield NodeSite(child, node, outer if outside and outer is not None else site.scope)


def _skip_comprehensions(scope: Scope) -> Scope:
    while scope.kind is ScopeKind.COMPREHENSION and scope.parent is not None:
        scope = scope.parent
    return scope


_OTHER_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def iter_module_statements(tree: ast.Module) -> Iterator[ast.stmt]:
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
def list_annotated_names(tree: ast.Module) -> tuple[tuple[str, ast.AnnAssign], ...]:
    """Return every annotated name of the module's scope with its annotating statement, in source order."""
    return tuple(
        (node.target.id, node)
        for node in iter_module_statements(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    )


def find_bound_names(tree: ast.Module, leaving_out: Collection[ast.AST] = ()) -> frozenset[str] | None:
    """Return every name that the source binds, or None if a star import binds unknown names.

    Args:
        tree: the syntax tree.
        leaving_out: nodes to ignore.
    """
    found: set[str] = set()
    passed = {id(node) for node in leaving_out}
    for node in list_nodes(tree):
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


def find_insertion_line(tree: ast.Module) -> int:
    """Return the line number for a new import, after the docstring and the ``__future__`` imports.

    If only they exist, this is the line after them.
    """
    for place, statement in enumerate(tree.body):
        docstring = (
            place == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        )
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not docstring and not future:
            decorators = statement.decorator_list if isinstance(statement, _OTHER_SCOPES) else []
            return min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return (tree.body[-1].end_lineno or tree.body[-1].lineno) + 1
