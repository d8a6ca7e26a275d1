"""Records which lines of the adapter the tests run: each block of a function reports its start.

Except for a call that is added at the start of each block, the adapter's text is compiled unchanged. The
guest controls the result, which affects only warnings.
"""

from __future__ import annotations

from importlib import import_module

from .. import private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import CodeType
    from typing import Any

    from ._modules import SubmittedFile

    Block = tuple[int, list[Any]]

private.isolate_builtins(globals())

_MARK = "@seen"
"""No text can name it."""
_MOST_BLOCKS = 2000
_MOST_CHARS = 20_000


class Coverage:
    """The blocks of one file, and the blocks that were run."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._seen: set[int] = set()

    def compile(self, one: SubmittedFile) -> tuple[CodeType, Mapping[str, object]]:
        """Return the code of a file, and the names that its blocks call. Raises compiler exceptions."""
        ast = import_module("ast")
        tree = ast.parse(one.text, one.path)
        for number, (owner, body) in enumerate(_iter_blocks(ast, tree)):
            if number >= _MOST_BLOCKS:
                break
            first = int(bool(owner) and _is_docstring(ast, body[0]))
            lines = [str(statement.lineno) for statement in body[first:]]
            self._blocks.append(" ".join((str(owner), *lines)))
            call = ast.Call(ast.Name(_MARK, ast.Load()), [ast.Constant(number)], [])
            body.insert(first, ast.fix_missing_locations(ast.copy_location(ast.Expr(call), body[0])))
        return compile(tree, one.path, "exec", dont_inherit=True), {_MARK: self._seen.add}

    def told(self) -> Mapping[str, str]:
        """Return all blocks and the blocks that were run, as two texts; empty if these are too large."""
        blocks, seen = ";".join(self._blocks), " ".join(map(str, sorted(self._seen)))
        return {"blocks": blocks, "seen": seen} if len(blocks) + len(seen) < _MOST_CHARS else {}


def _is_docstring(ast: Any, statement: Any) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _iter_blocks(ast: Any, tree: Any) -> Iterator[Block]:
    """Yield each block in a function, with the line of ``def`` for the function's body, otherwise 0."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    pending = [(node, False) for node in tree.body]
    while pending:
        node, inside = pending.pop()
        is_function = isinstance(node, functions)
        inside = is_function or (inside and not isinstance(node, ast.ClassDef))
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            block = getattr(node, name, None)
            if not isinstance(block, list) or not block:
                continue
            pending += [(each, inside) for each in block]
            if inside and name not in {"handlers", "cases"}:
                yield node.lineno if is_function else 0, block
