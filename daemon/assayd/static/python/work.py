r"""Estimates what compiling costs beyond the length of a text, before the compiler sees it.

Two things take it time with the square of their number: the pieces of one f-string, since the place of each
is looked for from the string's beginning, and names that inner scopes see, since each scope gets a copy.

    f"{a}{a}{a}…"                                    with 60,000 pieces: 5 s
    def f1(): global a1                              20,000 times: 20 s
    def f2(): global a2  …
"""

from __future__ import annotations

import ast
import re

F_STRING_WORK = 2 * 10**9
"""Pieces times characters, about a second."""
SCOPE_WORK = 2 * 10**7
"""Scopes times the names that they see, about a second."""

# Each alternative takes what it has begun, also where its end is missing, so that nothing is read twice.
_STRING_OR_COMMENT = re.compile(
    r"""#[^\n]*+|'''(?:[^'\\]|\\.|'(?!''))*+(?:''')?|\"\"\"(?:[^"\\]|\\.|"(?!""))*+(?:\"\"\")?"""
    r"""|'(?:[^'\\\n]|\\.)*+'?|"(?:[^"\\\n]|\\.)*+"?""",
    re.DOTALL,
)
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Scope = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def is_slow_to_parse(text: str) -> bool:
    """Return whether the f-strings of a text have too many pieces for their length."""
    work = 0
    for found in _STRING_OR_COMMENT.finditer(text):
        begin = found.start()
        if "f" in text[max(begin - 2, 0) : begin].lower():
            work += text.count("{", begin, found.end()) * (found.end() - begin)
    return work > F_STRING_WORK


def is_slow_to_compile(tree: ast.Module) -> bool:
    """Return whether too many scopes see too many names."""
    declared: set[str] = set()
    scopes = work = 0
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        scopes += isinstance(node, _Scope)
        if isinstance(node, _Function):
            bound, inner = _inside(node, declared)
            scopes += inner
            work += bound * inner
        else:
            pending.extend(ast.iter_child_nodes(node))
    return work + scopes * len(declared) > SCOPE_WORK


def _inside(function: ast.AST, declared: set[str]) -> tuple[int, int]:
    """Count the names that an outermost function binds with all in it, and the scopes in it."""
    bound = inner = 0
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            declared.update(node.names)
        elif isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)):
            bound += 1
        elif isinstance(node, _Scope) and node is not function:
            inner += 1
    return bound, inner
