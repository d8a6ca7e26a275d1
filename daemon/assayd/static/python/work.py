"""Estimates whether a source takes too long to compile, before it is passed to the compiler.

The compile time is quadratic in two quantities: the parts of one f-string, because the compiler searches
for each part from the start of the string, and the names visible in inner scopes, because each scope copies
them.

    f"{a}{a}{a}…"                                    with 60,000 parts: 5 s
    def f1(): global a1                              20,000 times: 20 s
    def f2(): global a2  …
"""

from __future__ import annotations

import ast
import re

MAX_F_STRING_WORK = 2 * 10**9
"""Limit of parts times characters, which take about a second."""
MAX_SCOPE_WORK = 2 * 10**7
"""Limit of scopes times visible names, which take about a second."""

# Each alternative also matches an unterminated string or comment, so that no text is scanned twice.
_LITERAL_OR_COMMENT_PATTERN = re.compile(
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
    """Return whether the f-strings of a source have too many parts, weighted by the strings' lengths."""
    work = 0
    for found in _LITERAL_OR_COMMENT_PATTERN.finditer(text):
        begin = found.start()
        if "f" in text[max(begin - 2, 0) : begin].lower():
            work += text.count("{", begin, found.end()) * (found.end() - begin)
    return work > MAX_F_STRING_WORK


def is_slow_to_compile(tree: ast.Module) -> bool:
    """Return whether the number of names visible in inner scopes is too high to compile."""
    declared: set[str] = set()
    scopes = work = 0
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        scopes += isinstance(node, _Scope)
        if isinstance(node, _Function):
            bound, inner = _count_names_and_scopes(node, declared)
            scopes += inner
            work += bound * inner
        else:
            pending.extend(ast.iter_child_nodes(node))
    return work + scopes * len(declared) > MAX_SCOPE_WORK


def _count_names_and_scopes(function: ast.AST, declared: set[str]) -> tuple[int, int]:
    """Return how many names an outermost function binds, and how many scopes it contains."""
    bound = inner = 0
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            declared.update(node.names)
        elif isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)):
            bound += 1
        elif isinstance(node, _Scope) and node is not function:
            inner += 1
    return bound, inner
