"""Extracts the Python code from a language model's answer.

This module decides which part of an answer is the code that is checked and run. An answer that is plain
Python keeps its text, apart from line endings and a byte order mark; a fence inside a string literal isn't
treated as a fence. Findings report the omitted parts:

    prose, a fenced block, more prose      answer.block_taken (info)
    every line indented by four spaces     answer.unindented (info)
"""

from __future__ import annotations

import ast
import re
import string
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from assayd.model.finding import Finding, Rule, Severity
from assayd.model.text_limits import SOURCE_BYTES
from assayd.static.python.source import is_valid_python, parse_source

RULES = (
    Rule(id="answer.block_taken", title="Only the fenced block was used", severity=Severity.INFO),
    Rule(id="answer.unindented", title="Indentation of the whole text was removed", severity=Severity.INFO),
)

_PYTHON_LANGUAGES = frozenset({"python", "python3", "py", "py3", "python3.11", "python3.12", "python3.13"})
_FENCE_PATTERN = re.compile(r"^[ \t]*(?P<mark>`{3,}+|~{3,}+)(?P<info>[^`\n]*)$", re.MULTILINE)
_FIRST_CODE_PATTERN = re.compile(r"^[ \t]*(?![ \t#\n])[^\n]", re.MULTILINE)
_BOM = "\ufeff"
"""A byte order mark, which some editors write first."""
_MAX_NESTED = 4
_MAX_BLOCKS = 20
_MAX_CLOSERS = 8
"""Maximum closing fences to try per block, because strings in a block may contain fences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCode:
    """The code of an answer, with findings that report the omitted parts."""

    text: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """A fenced block, with its language, its body, and its position in the answer."""

    language: str
    body: str
    start: int
    end: int


@lru_cache(maxsize=8)
def extract_code(answer: str) -> AnswerCode:
    """Return the Python code of an answer, or the whole answer if it is too long or too deeply nested.

    Extracting the code from the result again doesn't change it.
    """
    text = answer.lstrip(_BOM).replace("\r\n", "\n").replace("\r", "\n")
    if len(text) > SOURCE_BYTES:
        return AnswerCode(text=text)
    return _unwrap(text) or AnswerCode(text=text)


def _unwrap(text: str) -> AnswerCode | None:
    """Remove indentation and fences around the code. Return None if they are nested too deeply."""
    code, findings = text, tuple[Finding, ...]()
    for _ in range(_MAX_NESTED):
        plain = _unindent(code)
        found = _find_block(plain)
        if found is None:
            return AnswerCode(text=plain, findings=(*findings, *_report_unindented(code, plain)))
        taken, blocks = found
        findings = findings or tuple(_report_selected_block(taken, blocks, plain))
        code = taken.body
    return None


def _find_block(text: str) -> tuple[_Block, Sequence[_Block]] | None:
    """Return the block with the code and all blocks of that type, or None if all of the text is code.

    The code is in the first Python block or, without one, in the first block without a language.
    """
    first = _FENCE_PATTERN.search(text)
    if first is None or _is_in_string(text[: first.start()]) or is_valid_python(text):
        return None
    head = _find_code_before_fence(text, first)
    if head is not None:
        return head, (head,)
    blocks = list(islice(_iter_blocks(text), _MAX_BLOCKS))
    python = [b for b in blocks if b.language in _PYTHON_LANGUAGES] or [b for b in blocks if not b.language]
    return (python[0], python) if python else None


def _iter_blocks(text: str) -> Iterator[_Block]:
    """Yield the fenced blocks of an answer. A block without a closing fence extends to the end."""
    position = 0
    while (opening := _FENCE_PATTERN.search(text, position)) is not None:
        start = min(opening.end() + 1, len(text))
        body_end, position = _find_closing_fence(text, opening, start)
        info = opening["info"].strip().strip("{}").lstrip(".").split()
        yield _Block(
            language=info[0].lower().rstrip(":,") if info else "",
            body=textwrap.dedent(text[start:body_end]).lstrip(_BOM).rstrip() + "\n",
            start=opening.start(),
            end=position,
        )


def _find_closing_fence(text: str, opening: re.Match[str], start: int) -> tuple[int, int]:
    """Return the end of a block's body and the position after its closing fence.

    Because a docstring may contain fences, the block ends at the first closing fence whose body compiles.
    """
    mark = opening["mark"]
    fences = _FENCE_PATTERN.finditer(text, start)
    closers = list(
        islice((f for f in fences if f["mark"].startswith(mark) and not f["info"].strip()), _MAX_CLOSERS)
    )
    if not closers:
        return len(text), len(text)
    fitting = (c for c in closers if is_valid_python(textwrap.dedent(text[start : c.start()])))
    closer = closers[0] if len(closers) == 1 else next(fitting, closers[0])
    return closer.start(), closer.end()


def _find_code_before_fence(text: str, fence: re.Match[str]) -> _Block | None:
    """Return the code before a closing fence whose opening fence is missing (the prompt may contain it).

    Return None if the fence has a language, or if the text before it has no code.
    """
    if fence["info"].strip():
        return None
    tree = parse_source(text[: fence.start()]).tree
    if tree is None or all(isinstance(statement, ast.Expr) for statement in tree.body):
        return None
    return _Block(language="", body=text[: fence.start()].rstrip() + "\n", start=0, end=fence.end())


def _is_in_string(before: str) -> bool:
    """Return whether a triple-quoted string is open at the end of an answer."""
    return before.count('"""') % 2 == 1 or before.count("'''") % 2 == 1


def _unindent(text: str) -> str:
    """Return the code without its indentation if its first line is indented, which is invalid Python.

    Return other code unchanged.
    """
    if _is_indented(text):
        for candidate in (textwrap.dedent(text).lstrip(_BOM), text.lstrip(string.whitespace + _BOM)):
            if not _is_indented(candidate):
                return candidate
    return text


def _is_indented(text: str) -> bool:
    code = _FIRST_CODE_PATTERN.search(text)
    return code is not None and code[0][0] in " \t"


def _report_selected_block(taken: _Block, blocks: Sequence[_Block], text: str) -> Iterator[Finding]:
    where = "Line numbers start at the block's first line."
    if len(blocks) > 1:
        yield _build_info_finding(
            "answer.block_taken", f"Only the first of several fenced blocks was used. {where}"
        )
    elif (text[: taken.start] + text[taken.end :]).strip():
        yield _build_info_finding("answer.block_taken", f"Text around the fenced block was ignored. {where}")


def _report_unindented(before: str, after: str) -> Iterator[Finding]:
    if before != after:
        message = "The whole text was indented; the indentation was removed."
        yield _build_info_finding("answer.unindented", message)


def _build_info_finding(rule: str, message: str) -> Finding:
    return Finding(rule=rule, category="answer", message=message, severity=Severity.INFO)
