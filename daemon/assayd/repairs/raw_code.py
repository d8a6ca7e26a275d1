"""Recognizes an answer that is code and nothing else, for models that forget the JSON around it.

Accepts only what is unambiguous: the one fenced block of an answer, or a whole answer that is a program of
the language that was asked for. What is accepted is checked and run like any other code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

_BEGINNINGS = {
    "bash": re.compile(r"#!|set -|for |while |if |awk |sed |grep |sort |cat |printf |echo "),
    "sql": re.compile(r"--|WITH\b|SELECT\b|INSERT\b|UPDATE\b|DELETE\b|CREATE\b|ALTER\b", re.IGNORECASE),
}
"""How a program of these languages begins that no parser here reads; kinds bring further ones."""


def code_in(text: str, blocks: Sequence[tuple[str, str]], language: str, beginning: str = "") -> str:
    """Return the code that an answer without a JSON object is; "" if that is ambiguous.

    Args:
        text: the whole answer.
        blocks: its closed fences, each with the word behind the opening marks.
        language: of the passage.
        beginning: how a program of that language begins, as a pattern; see `Kind.beginning`.
    """
    if blocks:
        [(info, block), *others] = blocks
        meant_as_json = info.lower().startswith("json") or (not info and block.startswith(("{", "[")))
        return "" if others or meant_as_json else _ended(block)
    return _ended(text) if _is_program(text.strip(), language, beginning) else ""


def _ended(code: str) -> str:
    return code.strip("\n") + "\n" if code.strip() else ""


def _is_program(text: str, language: str, beginning: str) -> bool:
    if language == "python":
        return _is_python(text)
    pattern = re.compile(beginning) if beginning else _BEGINNINGS.get(language)
    return pattern is not None and pattern.match(text) is not None


def _is_python(text: str) -> bool:
    """Return whether a text is Python that does something: one word of prose is an expression, too."""
    try:
        tree = ast.parse(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return any(not isinstance(node, ast.Expr) for node in tree.body)
