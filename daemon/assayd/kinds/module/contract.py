"""Checks the adapter's contract in its source: a registered class that defines the methods itself.

    class Weather: …                  contract.no_decorator     (nothing registers it)
    @register_adapter on a function   contract.not_a_class
    no get_schema in the class        contract.missing_method
    def transform(): …                contract.method_form      (takes no self)

Decorators are recognized with and without a call, as dotted names, and under any imported name. Source:
docs/kinds/module.md.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from assayd.did_you_mean import find_close_names
from assayd.findings.source_text import get_line
from assayd.model.finding import Edit, Finding, Rule
from assayd.model.policy import AdapterContract
from assayd.model.text_limits import shorten_text
from assayd.static.python.imports import finding_at
from assayd.static.python.scopes import NodeSite, Scope, ScopedTree, ScopeKind, resolve_name

RULES = (
    Rule(
        id="contract.no_file",
        title="The adapter's file is missing",
        help="Good: adapter.py, or the name in the manifest's entrypoint.",
    ),
    Rule(
        id="contract.no_decorator",
        title="No class is registered",
        help="Bad: class Weather: …. Good: @register_adapter above it.",
    ),
    Rule(
        id="contract.not_a_class",
        title="The registered object isn't a top-level class",
        help="Bad: @register_adapter above a function. Good: above a class.",
    ),
    Rule(
        id="contract.missing_method",
        title="A required method is missing",
        help="Bad: a class without get_schema. Good: def get_schema(self): ….",
    ),
    Rule(
        id="contract.method_form",
        title="A method without self",
        help="Bad: def transform(): …. Good: def transform(self, raw): ….",
    ),
)

_CATEGORY = "missing_method"
_PROPERTIES = ("property", "cached_property", "setter", "getter", "deleter")


def check_contract(file: str, text: str, tree: ScopedTree, contract: AdapterContract) -> Iterator[Finding]:
    """Yield the contract's findings about the adapter's file."""
    for finding in _check_classes(text, tree, contract):
        yield replace(finding, file=file)


def no_file(files: list[str]) -> Finding:
    """Return the finding for a module that has no possible adapter file."""
    among = f"; the files are {shorten_text(', '.join(files), 200)}" if files else ""
    return Finding(
        rule="contract.no_file",
        category=_CATEGORY,
        message=f"The file adapter.py is missing{among}.",
        suggestion="Name the adapter's file adapter.py.",
    )


def find_registered_classes(tree: ScopedTree, contract: AdapterContract) -> list[ast.ClassDef]:
    """Return the top-level classes that a decorator of the contract registers."""
    marked = (site.node for site in _find_registered(tree, contract) if site.scope.kind is ScopeKind.MODULE)
    return [node for node in marked if isinstance(node, ast.ClassDef)]


def _check_classes(text: str, tree: ScopedTree, contract: AdapterContract) -> Iterator[Finding]:
    classes = find_registered_classes(tree, contract)
    for site in _find_registered(tree, contract):
        if site.node not in classes:
            message = "The registered object isn't a top-level class."
            yield finding_at(
                site.node,
                text,
                "contract.not_a_class",
                message,
                suggestion="Register a class at the top level.",
            )
    meant = classes or _find_candidate_classes(tree, contract)
    if not classes:
        yield _no_decorator_finding(text, tree, contract, meant)
    for node in meant if len(meant) == 1 else classes:
        methods = {
            one.name: one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        for method in methods.values():
            if method.name not in contract.methods and _is_property(method) and _has_no_parameters(method):
                yield _no_self_finding(node, method, text)
        for name in contract.methods:
            if name not in methods:
                yield _missing_method_finding(node, name, list(methods), text)
            elif _has_no_parameters(methods[name]):
                yield _no_self_finding(node, methods[name], text)


def _find_registered(tree: ScopedTree, contract: AdapterContract) -> Iterator[NodeSite]:
    for site in tree.sites:
        node = site.node
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if any(_is_registering_decorator(one, site.scope, contract) for one in node.decorator_list):
                yield site


def _is_registering_decorator(decorator: ast.expr, scope: Scope, contract: AdapterContract) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    if isinstance(target, ast.Attribute):
        return target.attr in contract.decorators
    if not isinstance(target, ast.Name):
        return False
    imported = {origin.name for origin in resolve_name(target.id, scope).origins}
    return target.id in contract.decorators or bool(imported & set(contract.decorators))


def _find_candidate_classes(tree: ScopedTree, contract: AdapterContract) -> list[ast.ClassDef]:
    """Return the top-level classes that define at least one of the contract's methods."""
    top = (site.node for site in tree.sites if site.scope.kind is ScopeKind.MODULE)
    return [
        node for node in top if isinstance(node, ast.ClassDef) and _defines_any(node, set(contract.methods))
    ]


def _no_decorator_finding(
    text: str, tree: ScopedTree, contract: AdapterContract, meant: list[ast.ClassDef]
) -> Finding:
    """Return the finding for an unregistered adapter, with an edit if only one class is a candidate."""
    name = _find_imported_decorator(tree, contract)
    how = f"@{name or contract.decorators[0]}"
    where = "it" if meant else "the adapter's class"
    node: ast.AST = meant[0] if meant else tree.sites[0].node
    found = finding_at(
        node,
        text,
        "contract.no_decorator",
        f"No class is registered with {how}.",
        suggestion=f"Write {how} above {where}; from {contract.modules[0]} import {how[1:]}.",
    )
    if name is None or len(meant) != 1:
        return _set_category(found)
    first = min([meant[0].lineno, *(one.lineno for one in meant[0].decorator_list)])
    edit = Edit(start_line=first, end_line=first - 1, replacement=f"@{name}\n")
    return _set_category(replace(found, edit=edit))


def _find_imported_decorator(tree: ScopedTree, contract: AdapterContract) -> str | None:
    """Return the imported name of a decorator of the contract, or None."""
    for site in tree.sites:
        if isinstance(site.node, ast.ImportFrom) and site.scope.kind is ScopeKind.MODULE:
            for alias in site.node.names:
                if alias.name in contract.decorators:
                    return alias.asname or alias.name
    return None


def _defines_any(node: ast.ClassDef, methods: set[str]) -> bool:
    defined = {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    return bool(defined & methods)


def _missing_method_finding(node: ast.ClassDef, name: str, defined: list[str], text: str) -> Finding:
    close = find_close_names(name, defined)
    if close:
        return _similar_method_finding(node, name, close[0], text)
    message = f"{node.name} has no method {name}."
    suggestion = f"Define it in the class itself: def {name}(self, …):"
    return _set_category(finding_at(node, text, "contract.missing_method", message, suggestion=suggestion))


def _similar_method_finding(node: ast.ClassDef, name: str, other: str, text: str) -> Finding:
    """Return the finding for a method whose name is similar to the name of a missing method."""
    method = next(one for one in node.body if getattr(one, "name", None) == other)
    found = finding_at(
        method,
        text,
        "contract.missing_method",
        f"{node.name} has no method {name}; it has {other}.",
        suggestion=f"Rename {other} to {name}.",
    )
    line = get_line(text, method.lineno) or ""
    edit = Edit(
        start_line=method.lineno,
        end_line=method.lineno,
        replacement=line.replace(f" {other}(", f" {name}(", 1),
    )
    return _set_category(replace(found, edit=edit))


def _no_self_finding(
    owner: ast.ClassDef, method: ast.FunctionDef | ast.AsyncFunctionDef, text: str
) -> Finding:
    message = f"{owner.name}.{method.name} has no self parameter."
    suggestion = f"Write: def {method.name}(self{'' if _is_property(method) else ', …'}):"
    return _set_category(finding_at(method, text, "contract.method_form", message, suggestion=suggestion))


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a method is a property, so that reading the attribute calls the method."""
    names = (one.attr if isinstance(one, ast.Attribute) else one for one in node.decorator_list)
    return any((one.id if isinstance(one, ast.Name) else one) in _PROPERTIES for one in names)


def _has_no_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    spec = node.args
    bare = not (spec.posonlyargs or spec.args or spec.vararg)
    static = any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in node.decorator_list)
    return bare and not static


def _set_category(finding: Finding) -> Finding:
    return replace(finding, category=_CATEGORY)
