"""Finds names that are read although no scope of the source binds them.

    parts = path.split("/"); prats[1]     name.undefined    did you mean 'parts'?

Nothing is reported if the source has a star import, accesses its namespace dynamically, or catches
NameError. Code under a condition on the Python version, and names in annotations that are never evaluated,
are ignored. Decision: docs/decisions/0038.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from assayd.findings.python_failures import NearestName, nearest_name
from assayd.findings.source_text import column_of, line_at, snippet
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.static.python.safe_fixes import edit_between, parse_or_none
from assayd.static.python.scopes import (
    NodeSite,
    Scope,
    ScopedTree,
    ScopeKind,
    bound_names,
    build_scoped_tree,
    nodes_of,
)
from assayd.static.python.source import PythonSource

UNDEFINED_RULE = Rule(
    id="name.undefined",
    title="A name that isn't defined",
    help="Bad: prats[1], with parts = path.split('/'). Good: parts[1].",
)

_BUILTINS = frozenset(vars(builtins)) | {
    "exit",
    "quit",
    "copyright",
    "credits",
    "license",
    "help",
    "WindowsError",
}
_OF_MODULES = frozenset(
    {
        "__annotations__", "__builtins__", "__cached__", "__class__", "__dict__", "__doc__", "__file__",
        "__loader__",
        "__module__", "__name__", "__package__", "__path__", "__qualname__", "__spec__",
    }
)  # fmt: skip
_NAMESPACES = frozenset({"exec", "globals", "locals", "vars", "execfile", "__builtins__", "builtins", "eval"})
"""Names whose use can create bindings that aren't visible in the source."""
_CATCHING = frozenset({"NameError", "Exception", "BaseException", "UnboundLocalError"})
_OLDER = re.compile(
    r"version|PY_?[23]|py_?[23]|python_?[23]|six|IS_PY|unicode_type|TYPE_CHECKING|MYPY", re.ASCII
)
_MOST = 50


_CLASSES = frozenset(name for name, value in vars(builtins).items() if isinstance(value, type))
"""Built-in classes, which are also used without a call: isinstance(x, list), except ValueError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _UndefinedName:
    """An unbound name, with the locations that read it."""

    name: str
    sites: tuple[NodeSite, ...]


def check_undefined(
    source: PythonSource,
    *,
    given: Collection[str] = (),
    severity: Severity = Severity.ERROR,
    leaving_out: Collection[str] = (),
    annotations: bool = True,
) -> Iterator[Finding]:
    """Yield the findings for names that the source reads but never binds.

    Args:
        source: the parsed source.
        given: names that are bound before the source runs.
        severity: the severity of the findings.
        leaving_out: names that another check covers.
        annotations: whether names in annotations are checked.
    """
    bound = bound_names(source.tree) if source.tree is not None else None
    if source.tree is None or bound is None:
        return
    known = {*bound, *_BUILTINS, *_OF_MODULES, *given, *leaving_out}
    names = [n for n in nodes_of(source.tree) if isinstance(n, ast.Name)]
    unknown = {n.id for n in names if isinstance(n.ctx, ast.Load) and n.id not in known}
    if not unknown or any(n.id in _NAMESPACES - bound for n in names):
        return
    tree = build_scoped_tree(source.tree)
    passed = _skipped_nodes(source.tree, annotations)
    for one in list(_find_undefined(tree, unknown, passed))[:_MOST]:
        yield _finding(one, source, tree, severity)


def _find_undefined(
    tree: ScopedTree, unknown: Collection[str], passed: Collection[ast.AST]
) -> Iterator[_UndefinedName]:
    found: dict[str, list[NodeSite]] = {}
    skipped: set[ast.AST] = set(passed)
    for site in tree.sites:  # Parents come before children.
        if site.node in skipped or site.parent in skipped:
            skipped.add(site.node)
        elif (
            isinstance(site.node, ast.Name)
            and site.node.id in unknown
            and isinstance(site.node.ctx, ast.Load)
        ):
            found.setdefault(site.node.id, []).append(site)
    for name, sites in found.items():
        yield _UndefinedName(name=name, sites=tuple(sites))


def _skipped_nodes(tree: ast.Module, annotations: bool) -> set[ast.AST]:
    """Return the nodes to skip in the check, with all of their descendants."""
    late = not annotations or any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )
    passed: set[ast.AST] = set()
    for node in nodes_of(tree):
        match node:
            case ast.Try(handlers=handlers, body=body) if any(map(_catches_name_error, handlers)):
                passed.update(body)
            case ast.If(test=test) | ast.IfExp(test=test) if _OLDER.search(ast.unparse(test)):
                passed.add(node)
            case ast.BoolOp(values=[first, *_]) if _OLDER.search(ast.unparse(first)):
                passed.add(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                inner = (n for n in ast.walk(node) if isinstance(n, ast.AnnAssign))
                passed.update(n.annotation for n in inner)
                if late and node.returns is not None:
                    passed.add(node.returns)
            case ast.AnnAssign(annotation=annotation) | ast.arg(annotation=ast.expr() as annotation) if late:
                passed.add(annotation)
            case ast.Delete():
                passed.add(node)
            case _:
                pass
    return passed


def _catches_name_error(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    named = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(one, ast.Name) and one.id in _CATCHING for one in named)


def _iter_scopes(scope: Scope) -> Iterator[Scope]:
    current: Scope | None = scope
    while current is not None:
        yield current
        current = current.parent


def _finding(one: _UndefinedName, source: PythonSource, tree: ScopedTree, severity: Severity) -> Finding:
    first = min(one.sites, key=lambda site: (_line_of(site), _column_of(site)))
    near = _intended_name(first, tree) if len(one.name) > 2 else None
    line = _line_of(first)
    shown = line_at(source.text, line) or ""
    others = sorted({_line_of(site) for site in one.sites} - {line})
    also = f" (also in line{'s' * (len(others) > 1)} {', '.join(map(str, others[:10]))})" if others else ""
    remedy = f"Define or import '{one.name}' before it is used."
    if one.name == "self" and any(scope.kind is ScopeKind.CLASS for scope in _iter_scopes(first.scope)):
        remedy = "Add `self` as the first parameter of the method."
    if one.name in sys.stdlib_module_names:
        near, remedy = None, f"Add at the top: import {one.name}"
    elif near:
        remedy = f"Did you mean '{near.name}'?"
    foreign = near is None and one.name not in sys.stdlib_module_names
    if foreign and all(site.scope.kind is not ScopeKind.MODULE for site in one.sites):
        # Nothing is misspelled: the code fails only if it is reached, and the run shows that.
        severity = Severity.WARNING
    return Finding(
        rule=UNDEFINED_RULE.id,
        category="name",
        message=f"'{one.name}' is not defined anywhere in the code{also}.",
        severity=severity,
        line=line,
        column=column_of(shown, _column_of(first)),
        snippet=snippet(source.text, line),
        suggestion=remedy,
        edit=_misspelling_edit(one, near.name, source.text) if near and near.certain else None,
    )


def _intended_name(site: NodeSite, tree: ScopedTree) -> NearestName | None:
    """Return the name that was probably intended, from the nearest scope.

    For a call, only functions are considered.
    """
    node = site.node
    name = node.id if isinstance(node, ast.Name) else ""
    chain = list(_iter_scopes(site.scope))
    visible = [s for s in chain if s is chain[0] or s.kind is not ScopeKind.CLASS]
    circles = [*(scope.bound for scope in visible), _BUILTINS]
    called = isinstance(site.parent, ast.Call) and site.parent.func is node
    functions = {
        n.node.name
        for n in tree.sites
        if isinstance(n.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    callable_builtins = {n for n in _BUILTINS if callable(getattr(builtins, n, None))}
    imported = {n for scope in visible for n in scope.imports}
    every = {n for circle in circles for n in circle}
    handed_on = isinstance(site.parent, ast.Call | ast.keyword)
    plain = every - functions - (set() if handed_on else callable_builtins - _CLASSES)
    return nearest_name(
        name, circles, (functions | callable_builtins | imported if called else plain) & every
    )


def _misspelling_edit(one: _UndefinedName, meant: str, text: str) -> Edit | None:
    """Return the edit that corrects a misspelled name at all of its locations."""
    lines = text.split("\n")
    for site in sorted(one.sites, key=lambda s: (_line_of(s), _column_of(s)), reverse=True):
        line = lines[_line_of(site) - 1]
        start = column_of(line, _column_of(site)) - 1
        if line[start : start + len(one.name)] != one.name:
            return None
        lines[_line_of(site) - 1] = line[:start] + meant + line[start + len(one.name) :]
    changed = "\n".join(lines)
    return edit_between(text, changed) if parse_or_none(changed) is not None else None


def _line_of(site: NodeSite) -> int:
    return getattr(site.node, "lineno", 1)


def _column_of(site: NodeSite) -> int:
    return getattr(site.node, "col_offset", 0)
