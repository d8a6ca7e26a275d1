"""Collects the hints of findings from the source: texts passed or assigned as `suggestion` or `hint`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from support.texts import prose

NAMES = frozenset({"suggestion", "hint", "_HINT"})
HOLE = "…"
"""Stands for the part of an f-string that varies."""


def hints() -> list[tuple[str, str]]:
    """Return ``file:line`` and text of each literal hint, with `HOLE` for each expression in it."""
    return [
        (f"{path.relative_to(prose.ROOT)}:{value.lineno}", text)
        for path in sorted((prose.ROOT / "daemon").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        for value in _given(node)
        if (text := _text(value)) is not None and " " in text
    ]


def _given(node: ast.AST) -> Iterator[ast.expr]:
    names: list[str | None] = []
    if isinstance(node, ast.keyword):
        names = [node.arg]
    elif isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.keyword | ast.Assign) and NAMES.intersection(names):
        yield node.value


def _text(value: ast.expr) -> str | None:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    if isinstance(value, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in value.values)
    return None
