"""Places in a module's files that explanations of failures speak of: functions, fixtures, fields."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import lru_cache

from assayd.findings.source_text import snippet
from assayd.model.finding import Edit, Finding

MOST_CHARS = 100_000
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def moved(finding: Finding, file: str, line: int, text: str, suggestion: str, edit: Edit | None) -> Finding:
    """Return a finding at another place, with its own remedy."""
    return replace(
        finding,
        file=file,
        line=line,
        column=None,
        snippet=snippet(text, line),
        suggestion=suggestion,
        edit=edit,
    )


@lru_cache(maxsize=8)
def tree(text: str) -> ast.Module | None:
    """Return the tree of a file; None if it can't be read."""
    try:
        return ast.parse(text) if len(text) <= MOST_CHARS else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def functions(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions and methods of a file."""
    read = tree(text)
    for node in ast.walk(read) if read is not None else ():
        if isinstance(node, FUNCTIONS):
            yield node


def function_at(text: str, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the innermost function that holds a 1-based line."""
    around = [each for each in functions(text) if each.lineno <= line <= (each.end_lineno or 0)]
    return around[-1] if around else None


def is_fixture(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function is a fixture of pytest."""
    return any("fixture" in ast.unparse(each) for each in node.decorator_list)


def parameters(text: str, owner: str) -> Iterator[str]:
    """Return the parameters of a function, or the fields and parameters of a class."""
    read = tree(text)
    for node in ast.walk(read) if read is not None else ():
        if isinstance(node, FUNCTIONS) and node.name == owner:
            yield from (each.arg for each in (*node.args.args, *node.args.kwonlyargs))
        elif isinstance(node, ast.ClassDef) and node.name == owner:
            yield from fields(node)


def fields(node: ast.ClassDef) -> Collection[str]:
    """Return the fields, methods and parameters of a class."""
    names = {
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    for each in node.body:
        if isinstance(each, FUNCTIONS):
            names |= (
                {arg.arg for arg in (*each.args.args, *each.args.kwonlyargs)}
                if each.name == "__init__"
                else {each.name}
            )
    return names - {"self"}


def fields_around(text: str, line: int) -> Collection[str]:
    """Return the attributes of the class that holds a 1-based line."""
    read = tree(text)
    classes = [
        node
        for node in (ast.walk(read) if read is not None else ())
        if isinstance(node, ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if not classes:
        return ()
    stored = {
        node.attr
        for node in ast.walk(classes[-1])
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    return {*fields(classes[-1]), *stored}
