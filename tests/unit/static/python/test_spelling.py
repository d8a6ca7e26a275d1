"""Lines that are no Python for a misspelt keyword or a missing comma."""

from __future__ import annotations

import pytest

from assayd.static.python.source import parse


@pytest.mark.parametrize(
    ("text", "suggestion", "line"),
    [
        ("dfe f(x):\n    return x\n", "Did you mean 'def'?", "def f(x):"),
        ("def f(x):\n    retrun x\n", "Did you mean 'return'?", "    return x"),
        ("fro x in [1]:\n    print(x)\n", "Did you mean 'for'?", "for x in [1]:"),
        ("improt re\n", "Did you mean 'import'?", "import re"),
        ("x = [n for n ni [1]]\n", "Did you mean 'in'?", "x = [n for n in [1]]"),
    ],
)
def test_one_change_that_makes_it_python_is_an_edit(text: str, suggestion: str, line: str) -> None:
    [finding] = parse(text).findings
    assert finding.suggestion == suggestion
    assert finding.edit is not None
    assert finding.edit.replacement == line


def test_what_is_missing_between_two_blanks_is_left_to_the_author() -> None:
    [finding] = parse("def f(a, b): pass\nx = f(a  b)\n").findings
    assert "comma" in (finding.suggestion or "")
    assert finding.edit is None


@pytest.mark.parametrize("text", ["x = = 1\n", "x y z\n", "x = ?\n", "if x = 1 then\n"])
def test_nothing_certain_is_said_of_other_lines(text: str) -> None:
    [finding] = parse(text).findings
    assert finding.edit is None
