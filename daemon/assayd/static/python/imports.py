"""Checks import statements and module names against an import policy, and computes edits.

    import os                         import.not_allowed      (only os.path is allowed)
    from re import enum               attribute.not_allowed   (not a listed name of re)
    from re import *                  import.star
    from . import secrets             import.relative

Both ``import os.path``, which binds ``os``, and ``from os import path`` import the allowed module. In
observe mode, the findings are informational.

Edits remove imports which are rejected or would fail, unless other code depends on them.

    import socket, never used                 the line is removed
    import os, used as os.path.… only         import os.path   (a warning: it binds the same name)
    import doctest, used only by the block    the line and the block are removed: the block never runs
    if __name__ == "__main__":                (a warning at the block, with its edit)

An import is removed only if its statement imports a single module and occupies a line alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from assayd.did_you_mean import find_close_names
from assayd.findings.source_text import byte_offset_to_column, get_line, get_snippet
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.model.policy import ImportMode, ImportPolicy, SubmoduleRule
from assayd.model.text_limits import shorten_text
from assayd.static.python.names import NAMES_BY_PACKAGE, get_refusal_reason
from assayd.static.python.scopes import list_nodes

RULES = (
    Rule(
        id="import.not_allowed",
        profile_key="imports.allowed",
        title="A module that the policy doesn't allow",
        help="Bad: import os. Good: import os.path.",
    ),
    Rule(
        id="import.star",
        profile_key="imports.names",
        title="A star import",
        help="Bad: from re import *. Good: from re import match.",
    ),
    Rule(
        id="import.relative",
        profile_key="imports.allowed",
        title="A relative import",
        help="A submission is one file.",
    ),
    Rule(
        id="attribute.not_allowed",
        profile_key="imports.names",
        title="A name that the policy doesn't allow",
        help="Bad: fnmatch.os. Good: fnmatch.fnmatch.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyModules:
    """The rules of a policy for modules and for the names in modules.

    The attribute `known` contains all dotted names that the policy mentions.
    """

    policy: ImportPolicy
    known: frozenset[str]

    @classmethod
    def from_policy(cls, policy: ImportPolicy) -> PolicyModules:
        """Return the import rules of a policy, including the parent packages of its modules."""
        named = policy.allowed | policy.names.keys()
        packages = {
            ".".join(parts[:n]) for parts in (m.split(".") for m in named) for n in range(1, len(parts))
        }
        return cls(policy=policy, known=frozenset(named | packages))

    def names(self, module: str) -> frozenset[str] | None:
        """Return the names of a module that code can use, or None if code can use all names of the module.

        For a package that isn't allowed itself, only its names in `NAMES_BY_PACKAGE` are returned; its
        allowed submodules can be used, too.
        """
        if module in self.policy.names:
            return self.policy.names[module]
        if module in self.known and not self.policy.allows(module):
            return NAMES_BY_PACKAGE.get(module, frozenset())
        return None

    def allows_name(self, module: str, name: str) -> bool:
        """Return whether the policy allows ``module.name``."""
        dotted = f"{module}.{name}"
        names = self.names(module)
        if name == "__name__":
            return True
        if names is None:
            return not self._is_denied(dotted)
        return name in names or (dotted in self.known and self._is_reachable(dotted))

    def is_module(self, dotted: str) -> bool:
        """Return whether the policy mentions this dotted name as a module."""
        return dotted in self.known

    def submodules(self, package: str) -> list[str]:
        """Return the allowed modules of a package."""
        return sorted(m for m in self.policy.allowed if m.startswith(package + "."))

    def _is_reachable(self, dotted: str) -> bool:
        return self.policy.allows(dotted) or bool(self.submodules(dotted))

    def _is_denied(self, dotted: str) -> bool:
        """Return whether the policy forbids a name in an otherwise allowed module, e.g. ``os.system``."""
        module = dotted.rpartition(".")[0]
        inherited = replace(self.policy, submodules=SubmoduleRule.INHERIT)
        return inherited.allows(module) and not inherited.allows(dotted)


def check_imports(node: ast.Import | ast.ImportFrom, modules: PolicyModules, text: str) -> Iterator[Finding]:
    """Yield the findings of one import statement. In observe mode, they are informational."""
    severity = Severity.ERROR if modules.policy.mode is ImportMode.ENFORCE else Severity.INFO
    problems = (
        _check_import(node, modules) if isinstance(node, ast.Import) else _check_from_import(node, modules)
    )
    for rule, message, suggestion, subject in problems:
        found = finding_at(node, text, rule, message, suggestion=suggestion, severity=severity)
        yield replace(found, subject=subject)


def suggest_name(module: str, modules: PolicyModules, name: str = "") -> str:
    """Return the suggested replacement for a name of a module, or the list of allowed names."""
    if module in _PATHS and name in _FILE_QUERY_NAMES:
        return _PATH_TEXT_ADVICE
    names = {*(modules.names(module) or ())}
    names |= {m.removeprefix(module + ".") for m in modules.submodules(module)}
    return f"Use of {module} only: {shorten_text(', '.join(sorted(names)), 400)}."


_PATHS = frozenset({"os", "os.path", "posixpath", "ntpath"})
_FILE_QUERY_NAMES = frozenset({
    "exists", "getatime", "getctime", "getmtime", "getsize", "isdir", "isfile", "islink", "ismount",
    "lexists", "listdir", "lstat", "realpath", "samefile", "scandir", "stat", "walk",
})  # fmt: skip
_PATH_TEXT_ADVICE = (
    "The path isn't a file on this machine. Decide from its text: a suffix, a folder's name, or a pattern."
)


def finding_at(
    node: ast.AST,
    text: str,
    rule: str,
    message: str,
    *,
    suggestion: str | None,
    severity: Severity = Severity.ERROR,
) -> Finding:
    """Return a finding at a node's position, or at the attribute's name if the node is an attribute."""
    line: int | None = getattr(node, "lineno", None)
    offset: int = getattr(node, "col_offset", 0)
    if isinstance(node, ast.Attribute) and node.end_lineno and node.end_col_offset:
        line, offset = node.end_lineno, node.end_col_offset - len(node.attr.encode())
    shown = get_line(text, line)
    return Finding(
        rule=rule,
        category=rule.partition(".")[0],
        message=shorten_text(message),
        severity=severity,
        line=line,
        column=None if shown is None else byte_offset_to_column(shown, max(offset, 0)),
        end_line=getattr(node, "end_lineno", line),
        snippet=get_snippet(text, line),
        suggestion=suggestion,
    )


Problem = tuple[str, str, str, str]
"""Rule, message, suggestion, and the rejected name."""


def _check_import(node: ast.Import, modules: PolicyModules) -> Iterator[Problem]:
    for alias in node.names:
        if not modules.policy.allows(alias.name):
            yield _build_not_allowed_problem(alias.name, modules)


def _check_from_import(node: ast.ImportFrom, modules: PolicyModules) -> Iterator[Problem]:
    module = node.module or ""
    if node.level:
        relative = "." * node.level + module
        yield (
            "import.relative",
            f"Relative import of {relative!r}.",
            "Put all code into one file.",
            relative,
        )
    elif module == "__future__":
        return
    elif not modules.policy.allows(module) and not _imports_submodules(node, modules):
        yield _build_not_allowed_problem(module, modules, taking=[alias.name for alias in node.names])
    elif any(alias.name == "*" for alias in node.names):
        yield (
            "import.star",
            f"The star imports every name from {module!r}.",
            f"Import the names that you need: from {module} import ….",
            module,
        )
    else:
        for alias in node.names:
            if not modules.allows_name(module, alias.name):
                message = f"{alias.name!r} of {module!r} isn't allowed."
                instead = suggest_name(module, modules, alias.name)
                yield "attribute.not_allowed", message, instead, f"{module}.{alias.name}"


def _imports_submodules(node: ast.ImportFrom, modules: PolicyModules) -> bool:
    """Return whether every imported name is an allowed module or a name of the package itself.

    Example: ``from os import path, sep``.
    """
    plain = (
        NAMES_BY_PACKAGE.get(node.module or "", frozenset()) if modules.submodules(node.module or "") else ()
    )
    return all(
        alias.name in plain
        or (
            modules.is_module(f"{node.module}.{alias.name}")
            and modules.policy.allows(f"{node.module}.{alias.name}")
        )
        for alias in node.names
    )


def _build_not_allowed_problem(module: str, modules: PolicyModules, taking: Sequence[str] = ()) -> Problem:
    reason = get_refusal_reason(module)
    message = f"Import of {module!r} is not allowed" + (f" ({reason})." if reason else ".")
    inside = modules.submodules(module)
    if inside and taking and module in NAMES_BY_PACKAGE:
        return "import.not_allowed", message, suggest_name(module, modules), module
    if inside:
        return "import.not_allowed", message, f"Import {' or '.join(inside)} instead.", module
    return "import.not_allowed", message, suggest_import(module, modules), module


_SIMILAR_BY_MODULE: Mapping[str, Sequence[str]] = {
    "aiohttp": ("httpx", "requests"),
    "arrow": ("datetime",),
    "async_timeout": ("asyncio",),
    "attr": ("dataclasses",),
    "attrs": ("dataclasses",),
    "dateutil": ("datetime",),
    "glob": ("fnmatch",),
    "http.client": ("httpx", "requests"),
    "inflection": ("re",),
    "numpy": ("math", "statistics"),
    "pandas": ("csv", "statistics"),
    "parse": ("re",),
    "posixpath": ("os.path",),
    "ntpath": ("os.path", "pathlib"),
    "pydantic": ("dataclasses",),
    "pytz": ("zoneinfo",),
    "regex": ("re",),
    "simplejson": ("json",),
    "six": ("str",),
    "typing_extensions": ("typing",),
    "ujson": ("json",),
    "urllib.request": ("httpx", "requests"),
    "urllib3": ("httpx", "requests"),
    "yaml": ("json",),
}
"""Modules with the same or similar functions, to suggest if the policy allows them."""
_REMOVAL_ADVICE_BY_MODULE: Mapping[str, str] = {
    "sys": "Remove it, with guards on sys.version_info: Python is 3.11 or newer on Linux, and the report "
    "shows printed output.",
    "platform": "Remove it: the code runs on Linux.",
    "builtins": "Use the names directly: builtins need no import.",
    "socket": "Remove it: the code has no network. Use the text of its arguments.",
    "subprocess": "Remove it: no program can be started. Compute the value in Python.",
    "inspect": "Remove it: list the functions, parameters or classes literally.",
    "doctest": "Remove it: write examples as `cases` of the submission.",
}
"""Advice for modules that the policy doesn't allow and that have no replacement."""
ALLOWED_IMPORTS_PREFIX = "Allowed imports: "


def suggest_import(module: str, modules: PolicyModules) -> str:
    """Return the suggested replacement for a module, or the list of allowed imports."""
    top = module.partition(".")[0]
    if top in _REMOVAL_ADVICE_BY_MODULE:
        return _REMOVAL_ADVICE_BY_MODULE[top]
    known = _SIMILAR_BY_MODULE.get(module) or _SIMILAR_BY_MODULE.get(top, ())
    others = [one for one in known if modules.policy.allows(one)]
    if others:
        return f"Use {' or '.join(others)} instead."
    allowed = sorted(modules.policy.allowed - modules.policy.denied)
    close = find_close_names(module, allowed)
    if close:
        return f"Did you mean {close[0]}? It is allowed."
    return f"{ALLOWED_IMPORTS_PREFIX}{shorten_text(', '.join(allowed), 600) or 'none'}."


def list_imports_once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings, with the list of allowed imports only in the first finding that contains it."""
    first: int | None = None
    for finding in findings:
        if finding.suggestion is not None and finding.suggestion.startswith(ALLOWED_IMPORTS_PREFIX):
            if first is not None:
                place = f" of line {first}" if first else ""
                yield replace(
                    finding,
                    suggestion=f"Remove it; the finding on the import{place} lists the allowed modules.",
                )
                continue
            first = finding.line or 0
        yield finding


PACKAGE_RULE = Rule(
    id="import.package",
    title="Only path names of a package are used",
    severity=Severity.WARNING,
    help="Bad: import os. Good: import os.path, which binds the same name.",
)
_PATH_NAMES = NAMES_BY_PACKAGE["os"] | {"path"}

MAIN_RULE = Rule(
    id="main.not_run",
    title="Only the __main__ part needs a forbidden import",
    severity=Severity.WARNING,
    help='Bad: if __name__ == "__main__": main(sys.argv). Only the function is called.',
)

Import = ast.Import | ast.ImportFrom


def add_import_edits(
    found: Iterable[Finding], tree: ast.Module, text: str, *, paths: bool
) -> Iterator[Finding]:
    """Add edits to findings that reject an import. For some uses of `os`, yield a warning instead.

    Args:
        found: the findings of one source.
        tree: its syntax tree.
        text: its text.
        paths: whether the policy allows `os.path`; an `os` that is used only for paths then gets a warning.
    """
    imports = None
    programs = _find_main_blocks(tree)
    for finding in found:
        if finding.rule != "import.not_allowed" or finding.edit is not None:
            yield finding
            continue
        imports = _map_imports_by_line(tree) if imports is None else imports
        node = imports.get(finding.line or 0)
        unused = None if node is None else _build_removal_edit(node, tree, text)
        if unused is None and node is not None and programs:
            unused = _build_removal_edit(node, _remove_blocks(tree, programs), text)
            if unused is not None:
                yield from (_build_main_block_finding(program, node, text) for program in programs)
                programs = ()
        if paths and _is_os_import(finding) and _uses_only_paths(tree):
            yield _build_package_warning(finding, unused or _build_path_import_edit(finding, text))
        else:
            yield replace(finding, edit=unused)


def iter_unused_imports(tree: ast.Module, text: str) -> Iterator[tuple[str, Edit]]:
    """Yield each module whose import is unused, and the edit that removes the import.

    Only module-level imports of one module that are alone on their line are considered.
    """
    for node in _map_imports_by_line(tree).values():
        edit = _build_removal_edit(node, tree, text) if _get_module_name(node) != "__future__" else None
        if edit is not None:
            yield _get_module_name(node), edit


def _map_imports_by_line(tree: ast.Module) -> dict[int, Import]:
    """Return the module-level imports that import a single module and occupy whole lines, keyed by line."""
    return {
        node.lineno: node
        for node in tree.body
        if isinstance(node, Import) and len(node.names) == 1 and node.lineno == node.end_lineno
    }


def _get_module_name(node: Import) -> str:
    return node.names[0].name if isinstance(node, ast.Import) else node.module or ""


def _build_removal_edit(node: Import, tree: ast.Module, text: str) -> Edit | None:
    [alias] = node.names
    name = (alias.asname or alias.name).partition(".")[0]
    if name == "*" or not _is_whole_line(node, text) or len(tree.body) == 1:
        return None
    return (
        None
        if name in _find_used_names(tree)
        else Edit(start_line=node.lineno, end_line=node.lineno, replacement="")
    )


def _find_main_blocks(tree: ast.Module) -> Sequence[ast.If]:
    """Return the blocks under ``if __name__ == "__main__":``, which run only in the main program."""
    return tuple(node for node in tree.body if isinstance(node, ast.If) and _is_main_check(node))


def _is_main_check(node: ast.If) -> bool:
    match node:
        case ast.If(
            test=ast.Compare(
                left=ast.Name(id="__name__"),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value="__main__")],
            ),
            orelse=[],
        ):
            return True
        case _:
            return False


def _remove_blocks(tree: ast.Module, programs: Sequence[ast.If]) -> ast.Module:
    """Return the tree without the given blocks, or unchanged if other code uses names that they bind."""
    rest = ast.Module(body=[node for node in tree.body if node not in programs], type_ignores=[])
    bound = {
        node.id
        for program in programs
        for node in ast.walk(program)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return tree if bound & _find_used_names(rest) else rest


def _build_main_block_finding(program: ast.If, node: Import, text: str) -> Finding:
    """Return the finding for a main-program block, which never runs here, with an edit that removes it."""
    found = finding_at(
        program,
        text,
        MAIN_RULE.id,
        f"This part runs only in a program, and only it needs {_get_module_name(node)!r}.",
        suggestion="Remove it: only the function is called, and __name__ isn't '__main__'.",
        severity=Severity.WARNING,
    )
    last = program.end_lineno or program.lineno
    return replace(found, edit=Edit(start_line=program.lineno, end_line=last, replacement=""))


def _is_os_import(finding: Finding) -> bool:
    return finding.message.startswith("Import of 'os' ")


def _uses_only_paths(tree: ast.Module) -> bool:
    """Return whether the source uses only path functions of `os` and never rebinds `os`."""
    asked = 0
    for node in list_nodes(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr=attr, ctx=ast.Load()) if attr in _PATH_NAMES:
                asked += 1
            case ast.Name(id="os"):
                asked -= 1
            case ast.alias(name="os", asname=str()):
                return False
            case _:
                pass
    return asked == 0


def _build_package_warning(finding: Finding, edit: Edit | None) -> Finding:
    return replace(
        finding,
        rule=PACKAGE_RULE.id,
        severity=Severity.WARNING,
        message="All of 'os' is imported, but only its path names are allowed.",
        suggestion="Write: import os.path, which binds the same name."
        if edit is None or edit.replacement
        else "Remove the line; nothing uses it.",
        edit=edit,
    )


def _build_path_import_edit(finding: Finding, text: str) -> Edit | None:
    """Return the edit that changes ``import os`` to ``import os.path``, which also binds `os`.

    Return None if the line isn't a plain import of `os`.
    """
    line = get_line(text, finding.line)
    found = (
        None
        if line is None
        else re.fullmatch(r"(\s*import\b[^#'\"]*?\b)os(\s*(?:,[^.#'\"]*)?(?:#.*)?)", line)
    )
    if found is None or finding.line is None:
        return None
    return Edit(start_line=finding.line, end_line=finding.line, replacement=f"{found[1]}os.path{found[2]}")


def _is_whole_line(node: Import, text: str) -> bool:
    line = get_line(text, node.lineno)
    return line is not None and ast.unparse(node) == line.strip()


@lru_cache(maxsize=2)
def _find_used_names(tree: ast.Module) -> frozenset[str]:
    """Return all names that the source uses, including the strings in ``__all__``."""
    names = {node.id for node in list_nodes(tree) if isinstance(node, ast.Name)}
    words = {node.value for node in list_nodes(tree) if isinstance(node, ast.Constant)}
    return frozenset(names | {word for word in words if isinstance(word, str)})
