"""Computes edits that remove imports which are rejected or would fail, unless other code depends on them.

    import socket, never used                 the line is removed
    import os, used as os.path.… only         import os.path   (a warning: it binds the same name)
    import doctest, used only by the block    the line and the block are removed: the block never runs
    if __name__ == "__main__":                (a warning at the block, with its edit)

An import is removed only if its statement imports a single module and occupies a line alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from assayd.findings.source_text import line_at
from assayd.model.finding import Edit, Finding, Rule, Severity
from assayd.static.python.imports import finding_at
from assayd.static.python.names import PACKAGE_NAMES
from assayd.static.python.nodes import nodes_of

PACKAGE_RULE = Rule(
    id="import.package",
    title="Only path names of a package are used",
    severity=Severity.WARNING,
    help="Bad: import os. Good: import os.path, which binds the same name.",
)
_PATH_NAMES = PACKAGE_NAMES["os"] | {"path"}

MAIN_RULE = Rule(
    id="main.not_run",
    title="Only the __main__ part needs a forbidden import",
    severity=Severity.WARNING,
    help='Bad: if __name__ == "__main__": main(sys.argv). Only the function is called.',
)

Import = ast.Import | ast.ImportFrom


def with_import_edits(
    found: Iterable[Finding], tree: ast.Module, text: str, *, paths: bool
) -> Iterator[Finding]:
    """Add edits to findings that reject an import; for some uses of `os`, yield a warning instead.

    Args:
        found: the findings of one source.
        tree: its syntax tree.
        text: its text.
        paths: whether the policy allows `os.path`; an `os` that is used only for paths then gets a warning.
    """
    imports = None
    programs = _main_blocks(tree)
    for finding in found:
        if finding.rule != "import.not_allowed" or finding.edit is not None:
            yield finding
            continue
        imports = _imports_by_line(tree) if imports is None else imports
        node = imports.get(finding.line or 0)
        unused = None if node is None else _removal_edit(node, tree, text)
        if unused is None and node is not None and programs:
            unused = _removal_edit(node, _remove_blocks(tree, programs), text)
            if unused is not None:
                yield from (_main_block_finding(program, node, text) for program in programs)
                programs = ()
        if paths and _is_os_import(finding) and _uses_only_paths(tree):
            yield _package_warning(finding, unused or _path_import_edit(finding, text))
        else:
            yield replace(finding, edit=unused)


def unused_imports(tree: ast.Module, text: str) -> Iterator[tuple[str, Edit]]:
    """Yield each module whose import is unused, and the edit that removes the import."""
    for node in _imports_by_line(tree).values():
        edit = _removal_edit(node, tree, text) if _module_name(node) != "__future__" else None
        if edit is not None:
            yield _module_name(node), edit


def _imports_by_line(tree: ast.Module) -> dict[int, Import]:
    """Return the module-level imports that import a single module and occupy whole lines, keyed by line."""
    return {
        node.lineno: node
        for node in tree.body
        if isinstance(node, Import) and len(node.names) == 1 and node.lineno == node.end_lineno
    }


def _module_name(node: Import) -> str:
    return node.names[0].name if isinstance(node, ast.Import) else node.module or ""


def _removal_edit(node: Import, tree: ast.Module, text: str) -> Edit | None:
    [alias] = node.names
    name = (alias.asname or alias.name).partition(".")[0]
    if name == "*" or not _is_whole_line(node, text) or len(tree.body) == 1:
        return None
    return (
        None
        if name in _used_names(tree)
        else Edit(start_line=node.lineno, end_line=node.lineno, replacement="")
    )


def _main_blocks(tree: ast.Module) -> Sequence[ast.If]:
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
    return tree if bound & _used_names(rest) else rest


def _main_block_finding(program: ast.If, node: Import, text: str) -> Finding:
    """Return the finding for a main-program block, which never runs here, with an edit that removes it."""
    found = finding_at(
        program,
        text,
        MAIN_RULE.id,
        f"This part runs only in a program, and only it needs {_module_name(node)!r}.",
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
    for node in nodes_of(tree):
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


def _package_warning(finding: Finding, edit: Edit | None) -> Finding:
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


def _path_import_edit(finding: Finding, text: str) -> Edit | None:
    """Return the edit that changes ``import os`` to ``import os.path``, which also binds `os`, or None."""
    line = line_at(text, finding.line)
    found = (
        None
        if line is None
        else re.fullmatch(r"(\s*import\b[^#'\"]*?\b)os(\s*(?:,[^.#'\"]*)?(?:#.*)?)", line)
    )
    if found is None or finding.line is None:
        return None
    return Edit(start_line=finding.line, end_line=finding.line, replacement=f"{found[1]}os.path{found[2]}")


def _is_whole_line(node: Import, text: str) -> bool:
    line = line_at(text, node.lineno)
    return line is not None and ast.unparse(node) == line.strip()


@lru_cache(maxsize=2)
def _used_names(tree: ast.Module) -> frozenset[str]:
    """Return all names that the source uses, including the strings in ``__all__``."""
    names = {node.id for node in nodes_of(tree) if isinstance(node, ast.Name)}
    words = {node.value for node in nodes_of(tree) if isinstance(node, ast.Constant)}
    return frozenset(names | {word for word in words if isinstance(word, str)})
