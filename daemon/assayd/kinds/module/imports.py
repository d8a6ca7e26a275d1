"""Checks a module's imports: of the module's files, of the image's modules, and of other modules.

`static.python.imports` checks the other imports against the policy. This module recognizes own files.

    import select                     import.not_allowed
    import socket  (never used)       import.not_allowed   (allowed only for the names that the policy lists)
    socket.create_server(…)           attribute.not_allowed
    pytest.importorskip("gc")         import.not_allowed   (equivalent to an import statement)
    from os import *                  import.star
    from .adapter import Weather      import.relative      (at the top level, without a package)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from assayd.did_you_mean import find_close_names
from assayd.findings.source_text import get_line
from assayd.kinds.module.files import module_name
from assayd.model.finding import Edit, Finding
from assayd.model.policy import ImportPolicy
from assayd.static.python.imports import PolicyModules, check_imports, finding_at, suggest_name
from assayd.static.python.scopes import Scope, ScopedTree, resolve_name

CATEGORY = "import_violation"
_IMPORT_FUNCTION = "importorskip"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportableModules:
    """The importable modules in addition to those that the policy allows: own and provided modules."""

    modules: frozenset[str]
    provided: frozenset[str]

    def covers(self, name: str) -> bool:
        """Return whether a dotted name belongs to the module itself or is provided by the container."""
        return name in self.modules or any(f"{one}.".startswith(f"{name}.") for one in self.provided)


def check_module_imports(
    file: str, text: str, tree: ScopedTree, policy: ImportPolicy, own: ImportableModules
) -> Iterator[Finding]:
    """Yield the findings about the import statements of one file."""
    modules, unused = PolicyModules.from_policy(policy), _UnusedImports(tree, text)
    for site in tree.sites:
        node = site.node
        found: Iterable[Finding]
        if isinstance(node, ast.Import):
            others = [alias for alias in node.names if not own.covers(alias.name)]
            judged = ast.copy_location(ast.Import(names=others), node)
            found = check_imports(judged, modules, text) if others else ()
            if len(others) == 1:
                found = _suggest_own_module(found, others[0].name, node, own, text)
        elif isinstance(node, ast.ImportFrom):
            found = _check_from_import(file, node, modules, text, own)
        elif isinstance(node, ast.Call) and _is_importorskip(node.func, site.scope):
            found = _check_import_call(node, modules, text, own)
        elif isinstance(node, ast.Attribute):
            found = _check_unlisted_name(node, site.scope, modules, text)
        else:
            continue
        if (
            isinstance(node, ast.Import)
            and _imports_listed_module(node, policy)
            and not unused.uses_import(node)
        ):
            found = [*found, *_check_unused_module(node, modules, text)]
        for finding in found:
            if finding.rule == "attribute.not_allowed" and _is_unrestricted(node, modules):
                continue  # A forbidden name of an otherwise allowed module: see `forbidden`.
            taken_out = unused.edit(node) if isinstance(node, ast.Import | ast.ImportFrom) else None
            edit = finding.edit or taken_out
            yield replace(finding, file=file, category=CATEGORY, edit=edit)


def _check_unlisted_name(
    node: ast.Attribute, scope: Scope, modules: PolicyModules, text: str
) -> Iterator[Finding]:
    """Yield the finding for an unlisted name of a module whose allowed names the policy lists."""
    base = node.value
    origins = resolve_name(base.id, scope).origins if isinstance(base, ast.Name) else ()
    for module in sorted(origin.module for origin in origins if origin.name is None):
        if modules.names(module) is not None and not modules.allows_name(module, node.attr):
            message = f"{node.attr!r} of {module!r} isn't allowed."
            suggestion = suggest_name(module, modules)
            yield finding_at(node, text, "attribute.not_allowed", message, suggestion=suggestion)


def _imports_listed_module(node: ast.Import, policy: ImportPolicy) -> bool:
    """Return whether a statement imports exactly one module, whose allowed names the policy lists."""
    return len(node.names) == 1 and node.names[0].name in policy.names and policy.allows(node.names[0].name)


def _check_unused_module(node: ast.Import, modules: PolicyModules, text: str) -> Iterator[Finding]:
    """Yield the finding for a module with listed names if the file uses none of these names."""
    module = node.names[0].name
    message = f"Import of {module!r} is allowed only for some of its names, and none of those is used."
    suggestion = f"Remove the line. {suggest_name(module, modules)}"
    yield finding_at(node, text, "import.not_allowed", message, suggestion=suggestion)


def _is_importorskip(function: ast.expr, scope: Scope) -> bool:
    """Return whether a called function is pytest's `importorskip`."""
    if isinstance(function, ast.Attribute):
        return function.attr == _IMPORT_FUNCTION
    names = resolve_name(function.id, scope).origins if isinstance(function, ast.Name) else ()
    return any(origin.name == _IMPORT_FUNCTION for origin in names)


def _check_import_call(
    node: ast.Call, modules: PolicyModules, text: str, own: ImportableModules
) -> Iterator[Finding]:
    given = [*node.args[:1], *(one.value for one in node.keywords if one.arg == "modname")]
    name = given[0].value if given and isinstance(given[0], ast.Constant) else None
    if not isinstance(name, str):
        message = "A module is imported by a computed name."
        suggestion = f'Write the name itself: {_IMPORT_FUNCTION}("json").'
        yield finding_at(node, text, "import.not_allowed", message, suggestion=suggestion)
    elif not own.covers(name):
        imported = ast.copy_location(ast.Import(names=[ast.alias(name=name)]), node)
        yield from check_imports(imported, modules, text)


def _is_unrestricted(node: ast.AST, modules: PolicyModules) -> bool:
    return isinstance(node, ast.ImportFrom) and modules.names(node.module or "") is None


def resolve_absolute(file: str, node: ast.ImportFrom) -> str | None:
    """Return the absolute module of a ``from`` import, or None if it is above the top-level package."""
    if not node.level:
        return node.module
    package = module_name(file).split(".")
    if not file.endswith("/__init__.py"):
        package = package[:-1]
    if node.level > len(package):
        return None
    base = package[: len(package) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def _check_from_import(
    file: str, node: ast.ImportFrom, modules: PolicyModules, text: str, own: ImportableModules
) -> Iterator[Finding]:
    name = resolve_absolute(file, node)
    if name is None:
        yield _build_relative_import_finding(node, text, own)
    elif node.level and not own.covers(name):
        message = f"The module {name!r} isn't one of the files."
        yield finding_at(node, text, "import.relative", message, suggestion="Import one of the files.")
    elif not own.covers(name):
        yield from _suggest_own_module(check_imports(node, modules, text), name, node, own, text)


def _suggest_own_module(
    found: Iterable[Finding], name: str, node: ast.Import | ast.ImportFrom, own: ImportableModules, text: str
) -> Iterator[Finding]:
    """Suggest the module's own file for an import: ``from reading import`` if ``readings.py`` exists."""
    last = name.rpartition(".")[2]
    near = [last] if last in own.modules else find_close_names(name, sorted(own.modules))
    for finding in found:
        if finding.rule != "import.not_allowed" or not near:
            yield finding
            continue
        where = "Files are at the top level, without a package. " if near[0] == last else ""
        hint = f"{where}Did you mean `{near[0]}`? It is a file of the module."
        line = get_line(text, node.lineno)
        pattern = rf"(?<![\w.]){re.escape(name)}(?![\w.])"
        once = line is not None and len(re.findall(pattern, line)) == 1
        new = re.sub(pattern, near[0], line) if line is not None and once else None
        edit = None if new is None else Edit(start_line=node.lineno, end_line=node.lineno, replacement=new)
        yield replace(finding, suggestion=hint, edit=edit)


def _build_relative_import_finding(node: ast.ImportFrom, text: str, own: ImportableModules) -> Finding:
    """Return the finding for a relative import outside a package, with an edit if the import is one line."""
    dots, module = "." * node.level, node.module or ""
    message = f"Relative import of {dots + module!r}, outside a package."
    target = module or "MODULE"
    finding = finding_at(
        node,
        text,
        "import.relative",
        message,
        suggestion=f"Write: from {target} import …. Files are at the top level.",
    )
    line = get_line(text, node.lineno)
    if node.level != 1 or not own.covers(module) or node.end_lineno != node.lineno or line is None:
        return finding
    fixed = line.replace(f"from .{module}", f"from {module}", 1)
    edit = Edit(start_line=node.lineno, end_line=node.lineno, replacement=f"{fixed}\n")
    return replace(finding, edit=edit) if fixed != line else finding


class _UnusedImports:
    """The imports of a source whose names are never used, computed on first use."""

    def __init__(self, tree: ScopedTree, text: str) -> None:
        self._tree = tree
        self._text = text

    @cached_property
    def _lines(self) -> Sequence[str]:
        return self._text.split("\n")

    @cached_property
    def _used_names(self) -> frozenset[str | None]:
        return frozenset(_get_referenced_name(site.node) for site in self._tree.sites)

    def uses_import(self, node: ast.Import | ast.ImportFrom) -> bool:
        """Return whether the source uses the first name that a statement binds."""
        alias = node.names[0]
        return (alias.asname or alias.name.partition(".")[0]) in self._used_names

    def edit(self, node: ast.Import | ast.ImportFrom) -> Edit | None:
        """Return the edit that removes an import of one unused name.

        Return None if the name is used, or if the import isn't alone on its line, or alone in its block.
        """
        [alias, *others] = node.names
        if others or alias.name == "*" or self.uses_import(node) or _is_only_child(node, self._tree):
            return None
        alone = ast.unparse(node) == self._lines[node.lineno - 1].strip()
        return Edit(start_line=node.lineno, end_line=node.lineno, replacement="") if alone else None


def _is_only_child(node: ast.AST, tree: ScopedTree) -> bool:
    """Return whether a block consists only of this statement, which then can't simply be removed."""
    parent = tree.parent(node)
    blocks = (getattr(parent, field, None) for field in ("body", "orelse", "finalbody"))
    return any(block == [node] for block in blocks if isinstance(block, list))


def _get_referenced_name(node: ast.AST) -> str | None:
    """Return the name that a node reads, including the strings in ``__all__``, or None for other nodes."""
    if isinstance(node, ast.Name):
        return node.id
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
