"""Attributes a failed comparison to the code that computes the value, if that code is a single line.

assert grade(3) == "good"                   the only statement of grade()
Differing items: {'share': 1} != …          the only statement of `share`, or the line that writes the key
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from assayd.findings.source_text import snippet
from assayd.guest_results.record import Raised
from assayd.kinds.module.files import is_test
from assayd.kinds.module.places import ModuleFiles, moved
from assayd.model.finding import Finding
from assayd.model.text_limits import shorten

Texts = ModuleFiles
_SHOWN_CHARS = 100


def _find_only_statement(name: str, texts: Texts) -> tuple[str, int] | None:
    """Return the file and line of a function's only statement; None for a longer function."""
    found = [
        (file, node)
        for file, text in texts.items()
        if not is_test(file)
        for node in texts.functions(text)
        if node.name == name
    ]
    if len(found) != 1:
        return None
    [(file, node)] = found
    body = [
        one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]
    return (file, body[0].lineno) if len(body) == 1 else None


def _computing_name(node: ast.expr) -> str | None:
    match node:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name
        case ast.Attribute(attr=name):
            return name
        case _:
            return None


def _find_values(key: str, texts: Texts) -> Iterator[tuple[str, ast.expr]]:
    """Yield the expressions that the module stores in dicts under a given key."""
    for file, text in texts.items():
        for node in () if is_test(file) else texts.dicts(text):
            for name, value in zip(node.keys, node.values, strict=True):
                if isinstance(name, ast.Constant) and name.value == key:
                    yield file, value


def _explain_differing_key(
    finding: Finding, raised: Raised, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``Differing items: {'share': 0.1} != {'share': 0.2}`` with the line that computes `share`."""
    written = list(_find_values(found[1], texts))
    if len(written) != 1:
        return None
    [(file, value)] = written
    name = _computing_name(value)
    place = _find_only_statement(name, texts) if name is not None else None
    return _point_to_line(finding, place or (file, value.lineno), texts, f"'{found[1]}'")


def _explain_wrong_result(
    finding: Finding, raised: Raised, found: re.Match[str], texts: Texts, test: str
) -> Finding | None:
    """Explain ``assert grade(3) == "good"`` if the function has only one statement."""
    line = texts.line(texts.get(raised.file or "", ""), raised.line)
    called = re.match(r"\s*+assert\s++(?:await\s++)?(?:\w++\.)*+(\w++)\(", line)
    place = _find_only_statement(called[1], texts) if called is not None else None
    return (
        None if called is None or place is None else _point_to_line(finding, place, texts, f"{called[1]}()")
    )


def _point_to_line(finding: Finding, place: tuple[str, int], texts: Texts, what: str) -> Finding:
    file, number = place
    shown = shorten((snippet(texts[file], number) or "").strip(), _SHOWN_CHARS)
    hint = f"Correct `{shown}`, which computes {what}, to give the expected value."
    return moved(replace(finding, edit=None), file, number, texts[file], hint, None)


Explain = Callable[[Finding, Raised, re.Match[str], Texts, str], Finding | None]
RESULTS: tuple[tuple[re.Pattern[str], Explain], ...] = (
    (re.compile(r"Differing items:\s+\{'(\w{1,100})': "), _explain_differing_key),
    (re.compile(r"^assert (?!<)[^\n]{1,500} == "), _explain_wrong_result),
)
"""Patterns of assertion messages with their explanations, tried after all others."""
