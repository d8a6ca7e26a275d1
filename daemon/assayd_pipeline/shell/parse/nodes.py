"""Defines the tree of a script, which consists of generic nodes created from the reader's JSON.

Offsets count bytes of the UTF-8 text. A node that doesn't state its kind (a statement, a word, a
redirection) is identified by the field that contains it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping


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
        ValueError: the input isn't a tree.
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
