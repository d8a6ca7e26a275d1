"""The interface to the programs that parse bash and explain mistakes in it, and the tree of a parsed script.

Checks don't run programs. The analysis worker installs the functions that run the parser and ShellCheck, once
per process. Without the latter, scripts get no comments.

The tree consists of generic nodes created from the parser's JSON. Offsets count bytes of the UTF-8 text. A
node that doesn't state its kind (a statement, a word, a redirection) is identified by the field that contains
it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from assayd.errors import AssaydError


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseResult:
    """The result of parsing, which is a tree as JSON or an error.

    `line` and `column` are 1-based, with the column counted in bytes; they are None if the whole text
    exceeded a limit.
    """

    tree: bytes | None = None
    message: str = ""
    line: int | None = None
    column: int | None = None


ShellParser = Callable[[str], ParseResult]

_installed_readers: list[ShellParser] = []


def install_reader(reader: ShellParser) -> None:
    """Set the function that later calls of `parse_script` use."""
    _installed_readers[:] = [reader]


def parse_script(text: str) -> ParseResult:
    """Parse a script with the installed function, and return its tree or the syntax error.

    Raises: AssaydError ``analysis.no_reader``, if no function is installed.
    """
    if not _installed_readers:
        raise AssaydError("analysis.no_reader", "nothing that reads bash was installed in this process")
    return _installed_readers[0](text)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinterComment:
    """A ShellCheck comment with its code and position. Lines and columns are 1-based; the end is exclusive.

    As in ShellCheck, a tab is counted as up to eight columns.
    """

    code: int
    line: int
    column: int
    end_line: int
    end_column: int


Linter = Callable[[str], tuple[LinterComment, ...]]

_installed_linter: list[Linter] = []


def install_linter(linter: Linter) -> None:
    """Set the function that later calls of `lint` use."""
    _installed_linter[:] = [linter]
    lint.cache_clear()


@lru_cache(maxsize=16)
def lint(text: str) -> tuple[LinterComment, ...]:
    """Return the comments on a script, or an empty tuple if no function is installed."""
    return _installed_linter[0](text) if _installed_linter else ()


class ScriptNode:
    """A node with its kind, its start and end, and its fields."""

    __slots__ = ("end", "fields", "kind", "start")

    def __init__(self, kind: str, start: int, end: int, fields: Mapping[str, object]) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.fields = fields

    def node(self, name: str) -> ScriptNode | None:
        """Return the node in a field, or None if the field is missing."""
        found = self.fields.get(name)
        return found if isinstance(found, ScriptNode) else None

    def nodes(self, name: str) -> list[ScriptNode]:
        """Return the nodes in a field, or an empty list if the field is missing."""
        found = self.fields.get(name)
        return [item for item in found if isinstance(item, ScriptNode)] if isinstance(found, list) else []

    def text(self, name: str) -> str:
        """Return the string in a field, or an empty string if the field is missing."""
        found = self.fields.get(name)
        return found if isinstance(found, str) else ""

    def get_flag(self, name: str) -> bool:
        """Return whether a field exists and is true."""
        return self.fields.get(name) is True

    def children(self) -> Iterator[ScriptNode]:
        """Yield the direct child nodes in any order."""
        for value in self.fields.values():
            if isinstance(value, ScriptNode):
                yield value
            elif isinstance(value, list):
                yield from (item for item in value if isinstance(item, ScriptNode))


def build_tree(tree: bytes) -> ScriptNode:
    """Create the nodes of a tree from JSON.

    Raises:
        RecursionError: the tree is nested too deeply.
        ValueError: the input isn't JSON.
        TypeError: the JSON value isn't a node.
    """
    root = json.loads(tree, object_hook=_build_node)
    if not isinstance(root, ScriptNode):
        raise TypeError("the tree of a script isn't a node")
    return root


def iter_tree(root: ScriptNode) -> Iterator[ScriptNode]:
    """Yield a node and all nodes below it, in any order and without recursion."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(node.children())


def _build_node(fields: dict[str, object]) -> ScriptNode | int:
    if isinstance(fields.get("Offset"), int) and "Line" in fields:
        return fields["Offset"]  # type: ignore[return-value]
    kind, start, end = fields.pop("Type", ""), fields.pop("Pos", 0), fields.pop("End", 0)
    return ScriptNode(
        str(kind), start if isinstance(start, int) else 0, end if isinstance(end, int) else 0, fields
    )
