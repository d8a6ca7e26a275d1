"""Missing signs: an edit if the line shows which sign and where, and none in doubt."""

from __future__ import annotations

import pytest

from assayd.static.python.source import parse_source
from assayd_chains.providers.rules import apply_edits


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("x = 1\nif x = 1:\n    pass\n", "x = 1\nif x == 1:\n    pass\n"),
        ("b = 1\ny = [a for a in c if b = a]\n", "b = 1\ny = [a for a in c if b == a]\n"),
        ("x = 1\nz = 1 if x = 2 else 3\n", "x = 1\nz = 1 if x == 2 else 3\n"),
        ("assert a.b = 1\n", "assert a.b == 1\n"),
        ("f(a b)\n", "f(a, b)\n"),
        ("def f(a b):\n    pass\n", "def f(a, b):\n    pass\n"),
        ("for a b in c:\n    pass\n", "for a, b in c:\n    pass\n"),
        ("from re import match search\n", "from re import match, search\n"),
        ("x = {\n    'a': 1\n    'b': 2}\n", "x = {\n    'a': 1,\n    'b': 2}\n"),
        ("f(a, b\ny = 1\n", "f(a, b)\ny = 1\n"),
        ("def f(x):\n    return g(h(x)  # why\n", "def f(x):\n    return g(h(x))  # why\n"),
        ("x = [\n    1,\n    2\nfor y in x:\n    pass\n", "x = [\n    1,\n    2]\nfor y in x:\n    pass\n"),
        ("x = foo(bar(1\ny = 1\n", "x = foo(bar(1))\ny = 1\n"),
        ("x = [\n    1,\n    2,\n\ny = 1\n", "x = [\n    1,\n    2,\n]\ny = 1\n"),
        ("print('a, b', '#'\n", "print('a, b', '#')\n"),
    ],
)
def test_edit_puts_the_sign_back(text: str, mended: str) -> None:
    [finding] = parse_source(text).findings
    assert finding.edit is not None
    assert apply_edits(text, [finding.edit]) == mended


@pytest.mark.parametrize(
    "text",
    [
        "if y = 1:\n    pass\n",  # y is bound nowhere: := may be meant
        "while chunk = f():\n    pass\n",
        "f(x) = 3\n",
        "x = y z\n",
        "print('%s' x)\n",  # % is missing, or a comma
        "x = len(a + 1\n",  # len(a) + 1, or len(a + 1)
        "def f(a):\n    return g(a, b\n",  # g(a), b may be returned
        "x = f(a, b\n",
        "x = f(a  b)\n",  # two blanks: an operator stood between them
    ],
)
def test_no_edit_where_two_things_could_be_meant(text: str) -> None:
    [finding] = parse_source(text).findings
    assert finding.edit is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = foo(bar[1, 2\n", "Close all 2 brackets opened in line 1: ])"),
        ("y = 'don't'\n", "Use double quotes for a string with an apostrophe, or write \\' (line 1)."),
        (
            'y = f\'{x.replace("\\n", "")}\'\n',
            "Assign the expression with the backslash to a name first, and use {name} in the f-string.",
        ),
    ],
)
def test_the_words_say_what_to_write(text: str, said: str) -> None:
    [finding] = parse_source(text).findings
    assert finding.suggestion == said
