"""The tree of a script: generic nodes, made from the JSON that the reader gives.

Offsets are in bytes of the UTF-8 text. A node without a kind of its own (a statement, a word, a redirection)
is told by the field that holds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping


class Node:
    """One node: its kind, where it begins and ends, and its fields."""

    __slots__ = ("end", "fields", "kind", "start")

    def __init__(self, kind: str, start: int, end: int, fields: Mapping[str, object]) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.fields = fields

    def node(self, name: str) -> Node | None:
        """Return the node in a field."""
        found = self.fields.get(name)
        return found if isinstance(found, Node) else None

    def nodes(self, name: str) -> list[Node]:
        """Return the nodes in a field, none when it is absent."""
        found = self.fields.get(name)
        return [item for item in found if isinstance(item, Node)] if isinstance(found, list) else []

    def text(self, name: str) -> str:
        """Return the text in a field, empty when it is absent."""
        found = self.fields.get(name)
        return found if isinstance(found, str) else ""

    def flag(self, name: str) -> bool:
        """Return whether a field is there and true."""
        return self.fields.get(name) is True

    def children(self) -> Iterator[Node]:
        """Return the nodes right below, in no order."""
        for value in self.fields.values():
            if isinstance(value, Node):
                yield value
            elif isinstance(value, list):
                yield from (item for item in value if isinstance(item, Node))


def load(tree: bytes) -> Node:
    """Make the nodes of a tree.

    Raises:
        RecursionError: it is nested too deep.
        ValueError: it is not a tree.
    """
    root = json.loads(tree, object_hook=_build)
    if not isinstance(root, Node):
        raise TypeError("the tree of a script isn't a node")
    return root


def walk(root: Node) -> Iterator[Node]:
    """Return a node and all below it, in no order; not recursive."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(node.children())


def _build(fields: dict[str, object]) -> Node | int:
    if isinstance(fields.get("Offset"), int) and "Line" in fields:
        return fields["Offset"]  # type: ignore[return-value]
    kind, start, end = fields.pop("Type", ""), fields.pop("Pos", 0), fields.pop("End", 0)
    return Node(str(kind), start if isinstance(start, int) else 0, end if isinstance(end, int) else 0, fields)
