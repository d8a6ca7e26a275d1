"""Checks the names in a code node's annotations, and defines the class `Declaration`.

    data: dict[str, any]                       annotations.lower_case_any   edit: dict[str, object]
    data: List[int], List never imported       annotations.not_imported     edit: list[int]
    data: Optional[int], never imported        annotations.not_imported     edit: from typing import Optional

Names in quoted parts are checked, too. Source: docs/kinds/code.md.
"""

from __future__ import annotations

import ast
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assayd.findings.source_text import column_of, line_at, snippet
from assayd.kinds.code import types as code_types
from assayd.model.finding import Edit, Finding, Rule
from assayd.model.text_limits import shorten
from assayd.static.python.scopes import annotated, bound_names, insertion_line

RULES = (
    Rule(
        id="annotations.lower_case_any",
        title="The function any() is used as a type",
        help="Bad: data: any. Good: data: Any, with from typing import Any.",
    ),
    Rule(
        id="annotations.not_imported",
        title="A type of typing isn't imported",
        help="Bad: data: List[int]. Good: data: list[int].",
    ),
)

_PLAIN = {
    "any": "object", "Dict": "dict", "FrozenSet": "frozenset", "List": "list", "Set": "set", "Tuple": "tuple",
    "Type": "type",
}  # fmt: skip
"""Replacements for names that would need an import."""
_TYPING = frozenset(typing.__all__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A name with its module-level annotation. `names` lists the annotation's outer types."""

    name: str
    node: ast.AnnAssign
    names: frozenset[str]

    @property
    def types(self) -> frozenset[str]:
        """Return the types that the annotation allows for a value."""
        return code_types.meaning(self.names)

    @property
    def has_value(self) -> bool:
        """Return whether the statement also assigns a value."""
        return self.node.value is not None

    def shown(self, text: str) -> str:
        """Return the annotation as written in the source."""
        node = self.node.annotation
        first = line_at(text, node.lineno) or ""
        start = column_of(first, node.col_offset) - 1
        if node.end_lineno != node.lineno:
            return shorten(f"{first[start:].strip()} …", 120)
        return shorten(first[start : column_of(first, node.end_col_offset or 0) - 1], 120)


def check_names(tree: ast.Module, text: str) -> Iterator[Finding]:
    """Yield findings about names in the module's annotations that are undefined or aren't types."""
    bound, top = bound_names(tree), insertion_line(tree)
    if bound is None:
        return
    for name, node in annotated(tree):
        names = [(found, quoted) for found, quoted in _type_names(node.annotation) if found.id not in bound]
        if names:
            yield from _undefined_name_findings(
                Declaration(name=name, node=node, names=frozenset()), names, text, top
            )


def _undefined_name_findings(
    declaration: Declaration, names: Sequence[tuple[ast.Name, bool]], text: str, top: int
) -> Iterator[Finding]:
    edit = _plain_type_edit(names, text)
    for name in dict.fromkeys(node.id for node, _ in names):
        if name == "any":
            message = f"'{declaration.name}' is annotated with any, which is a function, not a type."
            remedy = "Write Any with 'from typing import Any' at the top, or object."
            yield finding_at(declaration, text, "annotations.lower_case_any", message, remedy, edit)
        elif name in _TYPING:
            message = f"'{declaration.name}' is annotated with {name}, which isn't imported."
            statement = f"from typing import {name}"
            plain = _PLAIN.get(name)
            remedy = f"Write {plain}." if plain else f"Put at the top: {statement}"
            change = edit if plain else Edit(start_line=top, end_line=top - 1, replacement=statement)
            yield finding_at(declaration, text, "annotations.not_imported", message, remedy, change)


def _plain_type_edit(names: Sequence[tuple[ast.Name, bool]], text: str) -> Edit | None:
    """Return the edit that replaces those names of an annotation that have a plain type, or None."""
    nodes = [node for node, _ in names if node.id in _PLAIN]
    lines = {node.lineno for node in nodes}
    if len(lines) != 1 or any(quoted for _, quoted in names):
        return None
    [number] = lines
    line = line_at(text, number) or ""
    for node in sorted(nodes, key=lambda node: node.col_offset, reverse=True):
        start = column_of(line, node.col_offset) - 1
        line = f"{line[:start]}{_PLAIN[node.id]}{line[start + len(node.id) :]}"
    return Edit(start_line=number, end_line=number, replacement=line)


def _type_names(annotation: ast.expr) -> Iterator[tuple[ast.Name, bool]]:
    """Yield each plain name in an annotation, and whether it is quoted; skip the contents of `Literal`."""
    pending = [(annotation, False)]
    while pending:
        node, quoted = pending.pop()
        if isinstance(node, ast.Name):
            yield node, quoted
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            inner = _parse_annotation(node.value)
            pending.extend([] if inner is None else [(inner, True)])
        elif not isinstance(node, ast.Attribute):
            pending.extend((child, quoted) for child in reversed(_nested_type_expressions(node)))


def _nested_type_expressions(node: ast.expr) -> list[ast.expr]:
    """Return the nested expressions that name types."""
    if not isinstance(node, ast.Subscript):
        return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return [node.value, *{"Literal": [], "Annotated": parts[:1]}.get(name, parts)]


def _parse_annotation(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def finding_at(
    declaration: Declaration, text: str, rule: str, message: str, remedy: str | None, edit: Edit | None = None
) -> Finding:
    """Return a finding located at a declaration."""
    line = declaration.node.lineno
    return Finding(
        rule=rule,
        category="annotations",
        message=message,
        line=line,
        snippet=snippet(text, line),
        suggestion=remedy,
        edit=edit,
    )
