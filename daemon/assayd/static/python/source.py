r"""Parses submitted Python once, within limits, for all other checks of Python.

This module decides whether a submission is Python at all. The module `syntax` explains syntax errors, and
the module `security` decides which operations are allowed.

    1.2 MiB of source          source.too_large
    "x = 1\0"                   source.nul_byte
    half a surrogate pair      source.not_text
    "" or comments only        source.empty
    200,001 syntax nodes       source.too_complex
    x = ((((…))))              syntax.too_deep
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from assayd.findings.source_text import line_number_at
from assayd.model.finding import Finding, Rule
from assayd.model.text_limits import MAX_SYNTAX_NODES, SOURCE_BYTES
from assayd.static.python import syntax as python_syntax
from assayd.static.python.work import is_slow_to_compile, is_slow_to_parse

FILENAME = "submission.py"

RULES = (
    Rule(id="source.too_large", title="The source is too large", help="The limit is 1 MiB per text."),
    Rule(id="source.nul_byte", title="The source contains a NUL byte"),
    Rule(id="source.not_text", title="The source isn't Unicode text"),
    Rule(id="source.empty", title="The source has no code"),
    Rule(
        id="source.too_complex",
        title="The source has too many syntax nodes",
        help="Put large tables into data, not into code.",
    ),
    Rule(
        id="source.unanalysable",
        title="Reading the source exceeded time or memory",
        help="Submit smaller, less deeply nested source.",
    ),
    *python_syntax.RULES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSource:
    """A source with its syntax tree or, if it can't be parsed, with the findings that give the reason.

    If the source has a tree, `findings` contains the compiler's warnings.
    """

    text: str
    tree: ast.Module | None
    findings: tuple[Finding, ...] = ()


@lru_cache(maxsize=16)
def parse_source(text: str) -> PythonSource:
    """Return a source with its syntax tree, or with the finding that explains why it doesn't compile.

    The source isn't run. Its line endings must be LF.
    """
    refused = _build_refusal_finding(text)
    if refused is not None:
        return PythonSource(text=text, tree=None, findings=(refused,))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            tree = _compile_or_finding(text)
        except SyntaxError as error:
            return PythonSource(
                text=text, tree=None, findings=(python_syntax.explain_syntax_error(error, text),)
            )
    if isinstance(tree, Finding):
        return PythonSource(text=text, tree=None, findings=(tree,))
    noted = {(w.lineno, str(w.message)) for w in caught if issubclass(w.category, _COMPILER_WARNINGS)}
    return PythonSource(
        text=text, tree=tree, findings=python_syntax.build_warning_findings(sorted(noted), text)
    )


def is_valid_python(text: str) -> bool:
    """Return whether a source is valid Python, without determining the reason if it isn't."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _build_refusal_finding(text) is None and isinstance(_compile_or_finding(text), ast.Module)
        except SyntaxError:
            return False


_QUICK_BYTES = 64 * 2**10
"""Size in bytes below which every source parses quickly."""
_COMPILER_WARNINGS = (SyntaxWarning, DeprecationWarning)


def _compile_or_finding(text: str) -> ast.Module | Finding:
    """Return the tree of a source that compiles, or a finding that explains why it doesn't.

    Compilation detects errors that parsing doesn't, e.g. ``return`` at top level. Raises: SyntaxError, if the
    syntax is invalid.
    """
    try:
        tree = ast.parse(text, FILENAME)
        if _count_nodes(tree) > MAX_SYNTAX_NODES:
            return _build_syntax_finding(
                "source.too_complex", f"The source has more than {MAX_SYNTAX_NODES} syntax nodes."
            )
        if not any(_is_not_constant(statement) for statement in tree.body):
            return _build_syntax_finding("source.empty", "The submission has no code.")
        if is_slow_to_compile(tree):
            return _build_syntax_finding("source.too_complex", "Too many inner functions use too many names.")
        compile(text, FILENAME, "exec", dont_inherit=True)
    except (RecursionError, MemoryError, OverflowError):
        return python_syntax.too_deep()
    except ValueError as error:
        return _build_syntax_finding("source.not_text", f"The source can't be read: {error}")
    return tree


def _build_refusal_finding(text: str) -> Finding | None:
    """Return the finding for a source that must not be passed to the compiler, or None if it can be."""
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        line = line_number_at(text, error.start)
        return _build_syntax_finding("source.not_text", "The source contains a lone surrogate.", line)
    if size > SOURCE_BYTES:
        return _build_syntax_finding(
            "source.too_large", f"The source has {size} bytes; {SOURCE_BYTES} are allowed."
        )
    if size > _QUICK_BYTES and is_slow_to_parse(text):
        return _build_syntax_finding("source.too_complex", "An f-string has too many pieces for its length.")
    if "\0" in text:
        line = line_number_at(text, text.index("\0"))
        return _build_syntax_finding("source.nul_byte", "The source contains a NUL byte.", line)
    return None


def _count_nodes(tree: ast.AST) -> int:
    """Count the nodes of a tree, stopping slightly above the limit."""
    count = 0
    pending: list[Iterator[ast.AST]] = [iter((tree,))]
    while pending and count <= MAX_SYNTAX_NODES:
        node = next(pending[-1], None)
        if node is None:
            pending.pop()
            continue
        count += 1
        pending.append(ast.iter_child_nodes(node))
    return count


def _is_not_constant(statement: ast.stmt) -> bool:
    return not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


def _build_syntax_finding(rule: str, message: str, line: int | None = None) -> Finding:
    return Finding(
        rule=rule,
        category="syntax",
        message=message,
        line=line,
        suggestion=_SUGGESTION_BY_RULE[rule],
    )


_SUGGESTION_BY_RULE = {
    "source.too_large": "Submit less source.",
    "source.nul_byte": "Remove the NUL byte; write \\0 inside a string literal instead.",
    "source.not_text": "Submit text that is valid UTF-8.",
    "source.empty": "Submit Python code.",
    "source.too_complex": "Submit smaller source; keep large tables out of the code.",
}


def normalize_source(text: str) -> bytes:
    """Return the syntax tree without positions or, for a source that isn't Python, the source's words."""
    try:
        tree = ast.dump(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = " ".join(re.findall(r"\S+", text))
    return tree.encode("utf-8", "surrogatepass")


_NON_WORD_PATTERN = re.compile(r"\W+")


def find_mentioned_modules(modules: Iterable[str], text: str) -> tuple[str, ...]:
    """Return the modules whose dotted names have all of their parts in the source as words."""
    words = frozenset(_NON_WORD_PATTERN.split(text))
    return tuple(module for module in modules if words.issuperset(module.split(".")))
