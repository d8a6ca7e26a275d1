"""Reads the templates of ``str.format``: which attributes of its arguments a text follows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from string import Formatter

METHODS = frozenset({"format", "format_map", "vformat"})
_ATTRIBUTE = re.compile(r"\.([^.\[\]]+)")
_MAX_DEPTH = 3


def template(node: ast.Attribute, parent: ast.AST | None, constants: Mapping[str, str]) -> str | None:
    """Return the template of ``….format``, when it is a literal or a name bound once to one."""
    value: ast.expr = node.value
    if isinstance(value, ast.Name) and value.id == "str":
        if not isinstance(parent, ast.Call) or parent.func is not node or not parent.args:
            return None
        value = parent.args[0]
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return constants.get(name)
        case _:
            return None


def attributes(text: str, depth: int = 0) -> Iterator[str]:
    """Return the attributes that a template follows, those in nested format specs included."""
    try:
        fields = list(Formatter().parse(text))
    except ValueError:
        return  # str.format refuses it as well, when it runs
    for _, field, spec, _ in fields:
        yield from _ATTRIBUTE.findall(field or "")
        if spec and depth < _MAX_DEPTH:
            yield from attributes(spec, depth + 1)
