"""Gives the edits for imports that are refused, or fail, where nothing depends on them.

    import logging, never used                the line is taken out
    import os, used as os.path.… only         import os.path

Only a statement of a line of its own that imports one module is touched.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from assayd.findings.source_text import line_at
from assayd.model.finding import Edit, Finding

Import = ast.Import | ast.ImportFrom


def with_import_edits(
    found: Iterable[Finding], tree: ast.Module, text: str, *, paths: bool
) -> Iterator[Finding]:
    """Add the edits to findings that refuse an import.

    Args:
        found: findings of one text.
        tree: what it is parsed to.
        text: that text.
        paths: whether the policy allows `os.path`.
    """
    imports = None
    for finding in found:
        if finding.rule != "import.not_allowed" or finding.edit is not None:
            yield finding
            continue
        imports = _by_line(tree) if imports is None else imports
        node = imports.get(finding.line or 0)
        edit = (
            None
            if node is None
            else _unused(node, tree, text) or (_paths(node, tree, text) if paths else None)
        )
        yield replace(finding, edit=edit)


def unused_imports(tree: ast.Module, text: str) -> Iterator[tuple[str, Edit]]:
    """Return each module whose import nothing uses, with the edit that takes it out."""
    for node in _by_line(tree).values():
        edit = _unused(node, tree, text) if _module(node) != "__future__" else None
        if edit is not None:
            yield _module(node), edit


def _by_line(tree: ast.Module) -> dict[int, Import]:
    """Return the imports of one module each that have their lines to themselves, at module level."""
    return {
        node.lineno: node
        for node in tree.body
        if isinstance(node, Import) and len(node.names) == 1 and node.lineno == node.end_lineno
    }


def _module(node: Import) -> str:
    return node.names[0].name if isinstance(node, ast.Import) else node.module or ""


def _unused(node: Import, tree: ast.Module, text: str) -> Edit | None:
    [alias] = node.names
    name = (alias.asname or alias.name).partition(".")[0]
    if name == "*" or not _stands_alone(node, text) or len(tree.body) == 1:
        return None
    return None if name in _used(tree) else Edit(start_line=node.lineno, end_line=node.lineno, replacement="")


def _paths(node: Import, tree: ast.Module, text: str) -> Edit | None:
    """``import os`` -> ``import os.path``, which binds the same name."""
    if not isinstance(node, ast.Import) or node.names[0].name != "os" or node.names[0].asname:
        return None
    if not _stands_alone(node, text):
        return None
    uses = sum(isinstance(other, ast.Name) and other.id == "os" for other in ast.walk(tree))
    of_path = sum(
        isinstance(other, ast.Attribute)
        and other.attr == "path"
        and isinstance(other.value, ast.Name)
        and other.value.id == "os"
        for other in ast.walk(tree)
    )
    if not uses or uses != of_path:
        return None
    return Edit(start_line=node.lineno, end_line=node.lineno, replacement="import os.path")


def _stands_alone(node: Import, text: str) -> bool:
    line = line_at(text, node.lineno)
    return line is not None and ast.unparse(node) == line.strip()


@lru_cache(maxsize=2)
def _used(tree: ast.Module) -> frozenset[str]:
    """Return every name that is used, also as a word of ``__all__``."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return frozenset(names | {word for word in words if isinstance(word, str)})
