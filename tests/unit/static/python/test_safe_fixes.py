"""Edits for text that doesn't compile: their result, and no edit in doubt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.static.python.safe_fixes import MAX_TRIED_CHARS, build_edit
from assayd.static.python.source import parse_source
from assayd_chains.providers.rules import apply_edits

MENDED = [
    ('print "a"\nx = 1\nprint "b", x\n', 'print("a")\nx = 1\nprint("b", x)\n'),
    ("if a:\n    pass\nelse if b:\n    pass\n", "if a:\n    pass\nelif b:\n    pass\n"),
    ("try: f()\nexcept ValueError, e: g(e)\n", "try: f()\nexcept ValueError as e: g(e)\n"),
    ("try:\n    f()\nexcept A, b.C:\n    pass\n", "try:\n    f()\nexcept (A, b.C):\n    pass\n"),
    ("x = “a”\ny = ‘b’\n", "x = \"a\"\ny = 'b'\n"),
    ('x = f"{a["b"]}-{c["d"]:>4}"\n', "x = f\"{a['b']}-{c['d']:>4}\"\n"),
    ("x = f'{', '.join(a)}'\n", "x = f'{\", \".join(a)}'\n"),
    ("x = int(s\ny = 1\n", "x = int(s)\ny = 1\n"),
    ("n = sum(o['t'] for o in orders\nm = 2\n", "n = sum(o['t'] for o in orders)\nm = 2\n"),
    ('X = {\n  "a": 1,\n  "b": 2,\n\ndef f(): pass\n', 'X = {\n  "a": 1,\n  "b": 2,\n}\ndef f(): pass\n'),
    ("x = [1, 2)\n", "x = [1, 2]\n"),
    ("x = [f(s]\n", "x = [f(s)]\n"),
    ("x = int(s))\n", "x = int(s)\n"),
    ('x = p.split("/)\n', 'x = p.split("/")\n'),
    ("x = 'abc\n", "x = 'abc'\n"),
    ("def f():\n        x = 1\n\treturn x\n", "def f():\n        x = 1\n        return x\n"),
    ("```python\nx = 1\n```\n", "x = 1\n"),
    ("x = [\n    (1, 2)\n    (3, 4),\n]\n", "x = [\n    (1, 2),\n    (3, 4),\n]\n"),
]  # fmt: skip
DOUBTFUL = [
    ("print x,\n", "the comma keeps the line open"),
    ("x = f([1, 2)\n", "f([1], 2), or f([1, 2])"),
    ("try:\n    f()\nexcept a, b:\n    pass\n", "which of them is a class"),
    ("return_value = int(a, b\n", "int(a), b, or int(a, b)"),
    ("x = [1, 2\n", "[1], 2, or [1, 2]"),
    ("x = f(a) + b) * c\n", "either of the brackets may be one too many"),
    ('x = "a, b\n', 'either "a", b or "a, b"'),
    ('x = "abc # d\n', "the comment may be one"),
    ("def f():\n    for a in b:\n        g(a)\n\treturn b\n", "in the loop, or behind it"),
    ("x = foo(a  b)\n", "an operator stood between the blanks"),
    ("x = [\n    (1, 2)\n    (3, 4)[0],\n]\n" + "if x\n", "two things are wrong"),
    ("```python\nx = 1\n```\n```python\ny = 1\n```\n", "which of the blocks"),
    ("x = int(s\n" + "# a b c\n" * (MAX_TRIED_CHARS // 30), "too many places to look at all"),
    ("x = f([1, 2)\n#" + "-" * (MAX_TRIED_CHARS // 4), "too long to compile with the second change"),
]


@pytest.mark.parametrize(("text", "mended"), MENDED)
def test_edit_makes_python_of_the_text(text: str, mended: str) -> None:
    edits = [finding.edit for finding in parse_source(text).findings if finding.edit is not None]

    assert apply_edits(text, edits) == mended
    assert parse_source(mended).tree is not None


@pytest.mark.parametrize(("text", "why"), DOUBTFUL, ids=[why for _, why in DOUBTFUL])
def test_no_edit_where_a_doubt_is_left(text: str, why: str) -> None:
    assert [finding.edit for finding in parse_source(text).findings if finding.is_error] == [None]


LINES = st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=6).map("\n".join)


@given(LINES, LINES)
def test_edit_between_two_texts_makes_one_of_the_other(old: str, new: str) -> None:
    edit = build_edit(old, new)

    assert (edit is None) == (old == new)
    if edit is not None:
        assert apply_edits(old, [edit]) == new
