"""A tree that several checks walk is walked once."""

from __future__ import annotations

import ast

from assayd.static.python.nodes import nodes_of

TEXT = "def f(a):\n    return [a, 1]\n"


def test_nodes_are_those_of_a_walk_and_kept() -> None:
    tree = ast.parse(TEXT)
    first = nodes_of(tree)

    assert list(first) == list(ast.walk(tree))[1:]
    assert nodes_of(tree) is first


def test_kept_nodes_leave_out_the_tree_that_keeps_them() -> None:
    tree = ast.parse(TEXT)

    assert tree not in nodes_of(tree)
