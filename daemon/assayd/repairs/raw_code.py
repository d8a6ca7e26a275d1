"""Recognizes an answer that is code and nothing else, for models that forget the JSON around it.

Accepts only what is unambiguous: the one fenced block of an answer, or a whole answer that is a program of
the language that was asked for. What is accepted is checked and run like any other code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

_PYTHON = frozenset({"python", "extractor", "code", "script"})
"""Languages of passages, and kinds whose answers are one text, that are Python."""
_BEGINNINGS = {
    "bash": re.compile(r"#!|set -|for |while |if |awk |sed |grep |sort |cat |printf |echo "),
    "sql": re.compile(r"--|WITH\b|SELECT\b|INSERT\b|UPDATE\b|DELETE\b|CREATE\b|ALTER\b", re.IGNORECASE),
    "fifth": re.compile(r": \S+ |\\\\ |require "),
}
"""How a program of these languages begins that no parser here reads."""


def code_in(text: str, blocks: Sequence[tuple[str, str]], language: str) -> str:
    """Return the code that an answer without a JSON object is; "" if that is ambiguous.

    Args:
        text: the whole answer.
        blocks: its closed fences, each with the word behind the opening marks.
        language: of the passage, or the kind of the submission that is written.
    """
    if blocks:
        [(info, block), *others] = blocks
        meant_as_json = info.lower().startswith("json") or (not info and block.startswith(("{", "[")))
        return "" if others or meant_as_json else _ended(block)
    return _ended(text) if _is_program(text.strip(), language) else ""


def _ended(code: str) -> str:
    return code.strip("\n") + "\n" if code.strip() else ""


def _is_program(text: str, language: str) -> bool:
    if language in _PYTHON:
        return _is_python(text)
    beginning = _BEGINNINGS.get(language)
    return beginning is not None and beginning.match(text) is not None


def _is_python(text: str) -> bool:
    """Return whether a text is Python that does something: one word of prose is an expression, too."""
    try:
        tree = ast.parse(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return any(not isinstance(node, ast.Expr) for node in tree.body)
