"""Provides the security scan with a source's scopes and with the modules to which expressions may refer."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace

from assayd.model.finding import Finding
from assayd.model.policy import ImportPolicy
from assayd.static.python.imports import PolicyModules, finding_at
from assayd.static.python.names import STREAM_MODULES
from assayd.static.python.own import own_attributes, path_names, run_time_nodes
from assayd.static.python.scopes import NodeSite, Resolution, Scope, ScopedTree, build_scoped_tree, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
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
    def of(cls, text: str, tree: ast.Module, policy: ImportPolicy) -> View:
        """Return the view of a source under a policy."""
        whole = build_scoped_tree(tree)
        walked = replace(whole, sites=run_time_nodes(whole))
        return cls(
            text=text,
            tree=walked,
            modules=PolicyModules.of(policy),
            uses_paths=any(_is_import_of(site.node, {"pathlib"}) for site in walked.sites),
            uses_streams=any(_is_import_of(site.node, STREAM_MODULES) for site in walked.sites),
            constants=_constant_texts(walked),
            own=own_attributes(walked),
            paths=path_names(walked),
        )

    def error(self, node: ast.AST, rule: str, message: str, suggestion: str) -> Finding:
        """Return an error finding at a node's position."""
        return finding_at(node, self.text, rule, message, suggestion=suggestion)

    def dunder_finding(self, node: ast.AST, name: str) -> Finding:
        """Return the finding for a special name."""
        message = f"The special name {name!r} isn't allowed."
        return self.error(node, "name.dunder", message, "Choose another name.")

    def is_builtin(self, node: ast.AST, name: str, scope: Scope) -> bool:
        """Return whether an expression is the given name and may refer to the builtin of that name."""
        return isinstance(node, ast.Name) and node.id == name and resolve(name, scope).may_be_builtin

    def checks_uses(self, module: str) -> bool:
        """Return whether uses of a module are checked. They aren't if the import itself is rejected."""
        return self.modules.policy.allows(module) or bool(self.modules.submodules(module))

    def restricts(self, module: str) -> bool:
        """Return whether only some names of a module are allowed, or its import is rejected."""
        return self.modules.names(module) is not None or not self.checks_uses(module)

    def dotted(self, node: ast.AST, scope: Scope) -> frozenset[str]:
        """Return the dotted names to which an expression may refer, if these begin with a module."""
        match node:
            case ast.Attribute(value=value, attr=attr):
                return frozenset(f"{module}.{attr}" for module in self.modules_of(value, scope))
            case ast.Name(id=name):
                origins = resolve(name, scope).origins
                return frozenset(f"{o.module}.{o.name}" for o in origins if o.name is not None)
            case _:
                return frozenset()

    def modules_of(self, node: ast.AST, scope: Scope) -> frozenset[str]:
        """Return the modules to which an expression may refer."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return frozenset()
        found = self._dotted_names(resolve(node.id, scope))
        for name in reversed(names):
            dotted = (f"{module}.{name}" for module in found)
            found = frozenset(d for d in dotted if self.modules.is_module(d))
        return found

    def _dotted_names(self, resolution: Resolution) -> frozenset[str]:
        plain = {o.module for o in resolution.origins if o.name is None}
        named = {f"{o.module}.{o.name}" for o in resolution.origins if o.name is not None}
        return frozenset(plain | {dotted for dotted in named if self.modules.is_module(dotted)})


Check = Callable[[View, NodeSite], Iterator[Finding]]


def _is_import_of(node: ast.AST, modules: Container[str]) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name in modules for alias in node.names)
    return isinstance(node, ast.ImportFrom) and node.module in modules


def _constant_texts(tree: ScopedTree) -> dict[str, str]:
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
