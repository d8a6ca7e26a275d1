"""Creates small changes (mutants) of an adapter, to see whether its tests detect them.

    if count < 5:          if count >= 5:
    return sorted(low)     return None
    total += price         total -= price
    raise ValueError(…)    pass

Source: docs/quality.md. Deterministic. Comparisons are negated, because changing `<` to `<=` often has no
effect. Strings for human readers, and code that doesn't affect results (logs, exception messages,
timeouts), stay unchanged. Only the source text is read.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from types import CodeType

from pydantic import BaseModel, ConfigDict

from assayd.static.python.work import is_slow_to_compile

_MAX_NODES = 50_000
_CANDIDATES_PER_MUTANT = 4
"""Maximum candidates to compile, as a multiple of the wanted mutants: some candidates have no effect."""
_MAX_COMPILED_NODES = 300_000
"""Maximum nodes of all compiled texts, counting a node per 50 bytes: about a second.

A count rather than a time, so that the selection is deterministic.
"""
_BYTES_OF_A_NODE = 50
_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", ">="),
    ast.LtE: ("<=", ">"),
    ast.Gt: (">", "<="),
    ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
}
_MAX_NUMBER = 1e300
"""Larger numbers stay unchanged: Python rejects very long ones in decimal."""
_LOGS = frozenset({"log", "logger", "logging", "print", "warnings", "super"})
_INCIDENTAL_NAMES = frozenset({"description", "encoding", "headers", "indent", "timeout", "title"})
"""Arguments and keys whose values tests rarely need to check."""
_DISPLAY_METHODS = frozenset({"__repr__", "__str__", "__format__"})
_Change = tuple[str, int, int, str]
_ORDER = ("condition", "return", "arithmetic", "raise", "call", "number", "string")


class Mutant(BaseModel):
    """A changed adapter: `now` replaces the bytes of the source from `start` to `end`.

    `line` is the line of the change; `statement` is the first line of the enclosing statement.
    """

    model_config = ConfigDict(frozen=True)

    line: int
    statement: int
    start: int
    end: int
    was: str
    now: str

    def text(self, source: str) -> bytes:
        """Return the mutant's complete source in UTF-8."""
        content = source.encode()
        return content[: self.start] + self.now.encode() + content[self.end :]


def generate_mutants(source: str, most: int) -> list[Mutant]:
    """Return up to `most` mutants. Distribute them over functions, lines and types of change.

    Return none if the source can't be compiled or is too large.
    """
    if most < 1:
        return []
    read = _parse_and_compile(source)
    if read is None:
        return []
    tree, original = read
    nodes = sum(1 for _ in ast.walk(tree))
    if nodes > _MAX_NODES:
        return []
    finder = _MutantFinder(source)
    queues = [deque(_order_mutants(finder.find_mutants(function))) for function in _iter_functions(tree)]
    affordable = _MAX_COMPILED_NODES // (nodes + finder.size // _BYTES_OF_A_NODE + 1)
    chosen: list[Mutant] = []
    for one in islice(_interleave(queues), min(_CANDIDATES_PER_MUTANT * most, affordable)):
        if len(chosen) < most and _compiles_differently(one, source, original):
            chosen.append(one)
    return sorted(chosen, key=lambda one: one.start)


def _interleave(queues: Sequence[deque[Mutant]]) -> Iterator[Mutant]:
    while any(queues):
        yield from (queue.popleft() for queue in queues if queue)


def _iter_functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the top-level functions of a file, and the methods of its classes."""
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    for node in chain.from_iterable(bodies):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in _DISPLAY_METHODS:
            yield node


def _order_mutants(found: Iterable[tuple[str, Mutant]]) -> list[Mutant]:
    """Return the mutants with alternating types. Each line's first mutant precedes all second mutants."""
    by_kind: dict[str, list[Mutant]] = {kind: [] for kind in _ORDER}
    for kind, one in found:
        by_kind[kind].append(one)
    turns = zip_longest(*by_kind.values())
    ordered = [one for turn in turns for one in turn if one is not None]
    first: dict[int, Mutant] = {}
    for one in ordered:
        first.setdefault(one.line, one)
    return [*first.values(), *(one for one in ordered if first[one.line] is not one)]


def _compiles_differently(one: Mutant, source: str, original: object) -> bool:
    """Return whether a mutant compiles to different code. A change in unreachable code has no effect."""
    changed = _parse_and_compile(one.text(source).decode())
    return changed is not None and changed[1] != original


def _parse_and_compile(text: str) -> tuple[ast.Module, object] | None:
    """Return a source's tree and its code without positions, or None if it can't be compiled quickly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
            if is_slow_to_compile(tree):
                return None
            return tree, _strip_positions(compile(tree, "adapter", "exec", dont_inherit=True))
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            return None


def _strip_positions(code: CodeType) -> object:
    """Return a code object's content without its source positions."""
    inner = tuple(
        _strip_positions(one) if isinstance(one, CodeType) else (type(one), one) for one in code.co_consts
    )
    return code.co_name, code.co_code, code.co_names, inner


class _MutantFinder:
    """A finder of the mutants of one source."""

    def __init__(self, source: str) -> None:
        self._content = source.encode()
        self.size = len(self._content)
        self._starts = [0, *(match.end() for match in re.finditer(rb"\r\n?|\n", self._content))]

    def find_mutants(self, function: ast.AST) -> Iterator[tuple[str, Mutant]]:
        """Yield the mutants within a function with their types, in source order."""
        pending = [(statement, statement) for statement in reversed(_strip_docstring(function))]
        while pending:
            node, statement = pending.pop()
            for kind, start, end, now in self._mutate_node(node):
                line = bisect_right(self._starts, start)
                was = self._content[start:end].decode()
                yield (
                    kind,
                    Mutant(line=line, statement=statement.lineno, start=start, end=end, was=was, now=now),
                )
            inner = [
                (each, each if isinstance(each, ast.stmt) else statement)
                for each in _iter_mutable_parts(node)
            ]
            pending += reversed(inner)  # type: ignore[arg-type]

    def _mutate_node(self, node: ast.AST) -> Iterator[_Change]:
        """Yield the type, the byte range and the new text of each change to one node."""
        if isinstance(node, ast.Constant):
            yield from self._mutate_constant(node)
        elif isinstance(node, ast.stmt):
            yield from self._mutate_statement(node)
        match node:
            case ast.Compare(left=left, ops=ops, comparators=rights):
                for before, op, after in zip([left, *rights], ops, rights, strict=False):
                    yield from self._replace_operator("condition", before, after, *_COMPARISONS[type(op)])
            case ast.BoolOp(op=op, values=[first, second, *_]):
                words = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                yield from self._replace_operator("condition", first, second, *words)
            case ast.UnaryOp(op=ast.Not()):
                start = self._compute_byte_offset(node.lineno, node.col_offset)
                yield "condition", start, start + len("not"), ""
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield from self._negate_condition(test)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                if not any(map(_has_no_effect, (left, right))):
                    yield from self._replace_operator("arithmetic", left, right, *_ARITHMETIC[type(op)])

    def _negate_condition(self, test: ast.expr) -> Iterator[_Change]:
        if isinstance(test, ast.Name | ast.Attribute | ast.Call):
            start, end = self._byte_range(test)
            yield "condition", start, end, f"(not {self._content[start:end].decode()})"

    def _mutate_statement(self, node: ast.stmt) -> Iterator[_Change]:
        match node:
            case ast.AugAssign(target=target, op=op, value=value) if type(op) in _ARITHMETIC:
                if not _has_no_effect(value):
                    yield from self._replace_operator("arithmetic", target, value, *_ARITHMETIC[type(op)])
            case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
                yield "return", *self._byte_range(value), "None"
            case ast.Raise():
                yield "raise", *self._byte_range(node), "pass"
            case ast.Expr(value=ast.Call(func=func)) if _get_root_name(func) not in _LOGS:
                yield "call", *self._byte_range(node), "pass"
            case ast.Continue():
                yield "condition", *self._byte_range(node), "break"
            case ast.Break():
                yield "condition", *self._byte_range(node), "continue"

    def _mutate_constant(self, node: ast.Constant) -> Iterator[_Change]:
        match node.value:
            case bool():
                yield "number", *self._byte_range(node), repr(not node.value)
            case int() | float() if abs(node.value) < _MAX_NUMBER:
                yield "number", *self._byte_range(node), repr(node.value + 1)
            case str() if node.value:
                yield "string", *self._byte_range(node), '""'

    def _replace_operator(
        self, kind: str, left: ast.expr, right: ast.expr, was: str, now: str
    ) -> Iterator[_Change]:
        """Yield the replacement of the operator between two operands."""
        start, end = self._byte_range(left)[1], self._byte_range(right)[0]
        found = re.search(was.encode(), self._content[start:end])
        if found is not None and b"#" not in self._content[start:end]:
            yield kind, start + found.start(), start + found.end(), now

    def _byte_range(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self._compute_byte_offset(node.lineno, node.col_offset), self._compute_byte_offset(
            end_line, end_column
        )

    def _compute_byte_offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column


def _strip_docstring(function: ast.AST) -> list[ast.stmt]:
    body: list[ast.stmt] = getattr(function, "body", [])
    return body[1:] if _is_docstring(body[0]) else body


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _has_no_effect(node: ast.expr) -> bool:
    """Return whether an operand (0, 1 or a string) makes changing its operator useless.

    Such a change has no effect, or makes the code fail immediately.
    """
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) or node.value in (0, 1)
    return isinstance(node, ast.JoinedStr)


def _iter_mutable_parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node in which a change could matter."""
    match node:
        case ast.JoinedStr() | ast.Raise() | ast.ClassDef() | ast.Expr(value=ast.Constant()):
            return  # Positions inside an f-string aren't positions in the source.
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from _strip_docstring(node)
        case ast.Assert(test=value) | ast.AnnAssign(value=ast.expr() as value):
            yield value
        case ast.Call(func=func, args=arguments, keywords=keywords):
            if _get_root_name(func) not in _LOGS:
                yield from (func, *arguments)
                yield from (each.value for each in keywords if each.arg not in _INCIDENTAL_NAMES)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if not (isinstance(key, ast.Constant) and key.value in _INCIDENTAL_NAMES):
                    yield from (each for each in (key, value) if each is not None)
        case _ if not isinstance(node, ast.AnnAssign | ast.pattern):
            yield from ast.iter_child_nodes(node)


def _get_root_name(node: ast.expr) -> str:
    """Return the first name of a dotted expression, e.g. `log` for ``log.debug``."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""
