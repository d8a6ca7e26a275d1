"""Provides the security scan with a source's scopes and with the modules to which expressions may refer.

It also determines a source's own attributes, its names of paths, and its code for type checkers.

    class A: def exists(self): …          `exists` is an own attribute
    here = Path(path)                     `here` is a path
    if TYPE_CHECKING: import os           never runs, so it isn't checked
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace

from assayd.model.finding import Finding
from assayd.model.policy import ImportPolicy
from assayd.static.python.imports import PolicyModules, finding_at
from assayd.static.python.names import STREAM_MODULES
from assayd.static.python.scopes import (
    ImportOrigin,
    NodeSite,
    Resolution,
    Scope,
    ScopedTree,
    ScopeKind,
    build_scoped_tree,
    resolve_name,
)

_TYPE_CHECKING = ImportOrigin(module="typing", name="TYPE_CHECKING")
_PATH_CLASSES = frozenset({"Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath"})
_PATH_METHODS = frozenset({"parent", "joinpath", "with_name", "with_stem", "with_suffix", "relative_to"})


def find_own_attributes(tree: ScopedTree) -> frozenset[str]:
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


def find_path_names(tree: ScopedTree) -> frozenset[str]:
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
            ) if _get_final_name(annotation) in _PATH_CLASSES:
                found.add(name)
            case _:
                pass
    return frozenset(found)


def is_path(node: ast.AST, named: set[str] | frozenset[str]) -> bool:
    """Return whether an expression is certainly a path, created by pathlib or derived from a path."""
    while True:
        match node:
            case ast.Call(func=function) if _get_final_name(function) in _PATH_CLASSES:
                return True
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _PATH_METHODS:
                node = value
            case ast.Attribute(value=value, attr="parent") | ast.BinOp(left=value, op=ast.Div()):
                node = value
            case ast.Name(id=name):
                return name in named or name in _PATH_CLASSES
            case ast.Attribute(attr=name):
                return name in _PATH_CLASSES
            case _:
                return False


def list_run_time_nodes(tree: ScopedTree) -> tuple[NodeSite, ...]:
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
    is_typing = resolve_name(name, site.scope).origins == {origin}
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


_NAMEDTUPLE_FACTORIES = frozenset({"collections.namedtuple", "typing.NamedTuple"})
_MAX_BASES = 20


def has_known_fields(node: ast.expr, scope: Scope, tree: ScopedTree) -> bool:
    """Return whether the source shows which fields of a class a pattern can read.

    If a class is created by a call, patterns can read any attribute; only `namedtuple` restricts fields to
    plain names.
    """
    pending, seen = [node], set[str]()
    while pending and len(seen) < _MAX_BASES:
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
    return isinstance(node, ast.Name) and bool(resolve_name(node.id, scope).origins)


def _is_fields_decorator(decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return _get_final_name(function) in {
        "dataclass",
        "total_ordering",
        "unique",
        "final",
        "runtime_checkable",
    }


def _is_namedtuple(node: ast.AST | None, scope: Scope) -> bool:
    match node:
        case ast.Assign(value=ast.Call(func=ast.Name(id=name))):
            origins = resolve_name(name, scope).origins
            return bool(origins) and {f"{o.module}.{o.name}" for o in origins} <= _NAMEDTUPLE_FACTORIES
        case ast.Assign(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr))):
            origins = resolve_name(name, scope).origins
            return bool(origins) and {f"{o.module}.{attr}" for o in origins} <= _NAMEDTUPLE_FACTORIES
        case _:
            return False


def _get_final_name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Constant(value=str(name)):
            return name.rpartition(".")[2]
        case _:
            return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityView:
    """A source with its scopes, interpreted under the rules of one policy.

    `uses_paths` is True if the source imports pathlib anywhere; `uses_streams` is True if it imports a
    module with streams. `constants` contains the names that are bound exactly once in the whole source, to
    a string literal. `own` contains the attributes that the source's classes define or assign. `paths`
    contains the names to which a path is assigned anywhere.
    """

    text: str
    tree: ScopedTree
    modules: PolicyModules
    uses_paths: bool
    uses_streams: bool
    constants: Mapping[str, str]
    own: frozenset[str]
    paths: frozenset[str]

    @classmethod
    def from_source(cls, text: str, tree: ast.Module, policy: ImportPolicy) -> SecurityView:
        """Return the view of a source under a policy."""
        whole = build_scoped_tree(tree)
        walked = replace(whole, sites=list_run_time_nodes(whole))
        return cls(
            text=text,
            tree=walked,
            modules=PolicyModules.from_policy(policy),
            uses_paths=any(_is_import_of(site.node, {"pathlib"}) for site in walked.sites),
            uses_streams=any(_is_import_of(site.node, STREAM_MODULES) for site in walked.sites),
            constants=_find_constant_texts(walked),
            own=find_own_attributes(walked),
            paths=find_path_names(walked),
        )

    def error(self, node: ast.AST, rule: str, message: str, suggestion: str) -> Finding:
        """Return an error finding at a node's position."""
        return finding_at(node, self.text, rule, message, suggestion=suggestion)

    def build_dunder_finding(self, node: ast.AST, name: str) -> Finding:
        """Return the finding for a special name."""
        message = f"The special name {name!r} isn't allowed."
        return self.error(node, "name.dunder", message, "Choose another name.")

    def is_builtin(self, node: ast.AST, name: str, scope: Scope) -> bool:
        """Return whether an expression is the given name and may refer to the builtin of that name."""
        return isinstance(node, ast.Name) and node.id == name and resolve_name(name, scope).may_be_builtin

    def should_check_uses(self, module: str) -> bool:
        """Return whether uses of a module are checked. They aren't if the import itself is rejected."""
        return self.modules.policy.allows(module) or bool(self.modules.submodules(module))

    def is_restricted(self, module: str) -> bool:
        """Return whether only some names of a module are allowed, or its import is rejected."""
        return self.modules.names(module) is not None or not self.should_check_uses(module)

    def resolve_dotted(self, node: ast.AST, scope: Scope) -> frozenset[str]:
        """Return the dotted names, beginning with a module, to which an expression may refer.

        Return an empty set if there are none.
        """
        match node:
            case ast.Attribute(value=value, attr=attr):
                return frozenset(f"{module}.{attr}" for module in self.resolve_modules(value, scope))
            case ast.Name(id=name):
                origins = resolve_name(name, scope).origins
                return frozenset(f"{o.module}.{o.name}" for o in origins if o.name is not None)
            case _:
                return frozenset()

    def resolve_modules(self, node: ast.AST, scope: Scope) -> frozenset[str]:
        """Return the modules to which an expression may refer, or an empty set if it refers to none."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return frozenset()
        found = self._list_dotted_names(resolve_name(node.id, scope))
        for name in reversed(names):
            dotted = (f"{module}.{name}" for module in found)
            found = frozenset(d for d in dotted if self.modules.is_module(d))
        return found

    def _list_dotted_names(self, resolution: Resolution) -> frozenset[str]:
        plain = {o.module for o in resolution.origins if o.name is None}
        named = {f"{o.module}.{o.name}" for o in resolution.origins if o.name is not None}
        return frozenset(plain | {dotted for dotted in named if self.modules.is_module(dotted)})


Check = Callable[[SecurityView, NodeSite], Iterator[Finding]]


def _is_import_of(node: ast.AST, modules: Container[str]) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name in modules for alias in node.names)
    return isinstance(node, ast.ImportFrom) and node.module in modules


def _find_constant_texts(tree: ScopedTree) -> dict[str, str]:
    """Return the names that are bound exactly once in the source, to a string literal."""
    bound: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for site in tree.sites:
        node = site.node
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound[node.id] += 1
        elif isinstance(node, ast.arg):
            bound[node.arg] += 1
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                texts[name] = text
            case _:
                pass
    return {name: text for name, text in texts.items() if bound[name] == 1}
