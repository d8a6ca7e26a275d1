"""Computes the edits for a function that is not quite the one that will be called.

def extract_metadata(path): …         def extract(path): …     (the only function, named nowhere else)
async def extract(path): …            def extract(path): …     (nothing in it waits)
"""

from __future__ import annotations

import ast
import re

from assayd.findings.source_text import line_at
from assayd.model.finding import Edit

_WAITING = (ast.Await, ast.AsyncFor, ast.AsyncWith)


def renamed(tree: ast.Module, text: str, name: str) -> Edit | None:
    """Rename the one function at module level that takes one argument and begins with the name."""
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if len(functions) != 1 or functions[0] not in tree.body or isinstance(functions[0], ast.AsyncFunctionDef):
        return None
    [function] = functions
    spec = function.args
    one = len((*spec.posonlyargs, *spec.args)) == 1 and not spec.kwonlyargs
    named = any(isinstance(node, ast.Name) and node.id in {name, function.name} for node in nodes)
    line = line_at(text, function.lineno)
    if not one or named or line is None or not function.name.startswith(f"{name}_"):
        return None
    new = re.sub(rf"^(def\s+){function.name}\b", rf"\g<1>{name}", line)
    return Edit(start_line=function.lineno, end_line=function.lineno, replacement=new)


def synchronous(function: ast.AsyncFunctionDef, text: str) -> Edit | None:
    """Leave `async` out, when nothing in the function waits."""
    waits = any(isinstance(node, _WAITING) or getattr(node, "is_async", 0) for node in ast.walk(function))
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))
    line = line_at(text, function.lineno)
    found = None if line is None else re.fullmatch(r"(\s*)async\s+(def\b.*)", line)
    if waits or yields or found is None:
        return None
    return Edit(start_line=function.lineno, end_line=function.lineno, replacement=found[1] + found[2])
