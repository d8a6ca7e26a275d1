"""Functions that end without return although their value is used."""

from __future__ import annotations

import ast
import time

import pytest

from assayd.model.finding import Severity
from assayd.static.python.returns import build_return_edit, check_returns
from assayd.static.python.safe_fixes import MAX_TRIED_CHARS
from assayd.static.python.source import parse_source
from support.slowness import SLOWER_BY


def test_an_idle_last_statement_is_an_error_with_its_edit() -> None:
    text = "def rotate(rows):\n    turned = list(zip(*rows))\n    turned\ngrid = rotate([[1]])\nprint(grid)\n"
    [finding] = check_returns(parse_source(text))
    assert (finding.rule, finding.severity, finding.line) == ("function.no_value", Severity.ERROR, 3)
    assert finding.message == "rotate() ends without return (line 3), and its value, None, is used in line 4."
    assert finding.edit is not None
    assert finding.edit.replacement == "    return turned"


def test_a_function_that_never_returns_is_a_warning_with_what_it_made_last() -> None:
    [finding] = check_returns(parse_source("def f(x):\n    total = x + 1\n    print(total)\ny = f(1) * 2\n"))
    assert (finding.severity, finding.edit) == (Severity.WARNING, None)
    assert finding.suggestion == "End f() with: return total"


def test_a_method_is_found_by_its_own_class() -> None:
    text = "class A:\n    def f(self):\n        self.x + 1\n    def g(self):\n        return self.f() + 1\n"
    [finding] = check_returns(parse_source(text))
    assert (finding.line, finding.severity) == (3, Severity.ERROR)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    print(x)\nf(1)\n",
        "def f(x):\n    return x\ny = f(1)\n",
        "def f(x):\n    yield x\ny = f(1)\n",
        "def f(x):\n    raise ValueError(x)\ny = f(1)\n",
        "def f(x): ...\ny = f(1)\n",
        "def f(x): pass\ny = f(1)\n",
        "def f(x):\n    if x:\n        return 1\ny = f(1)\n",
        "@wrapped\ndef f(x):\n    x + 1\ny = f(1)\n",
        "def f(x):\n    x + 1\nf = other\ny = f(1)\n",
        "def f(x):\n    x + 1\ndef f(x):\n    return x\ny = f(1)\n",
        "def f(x):\n    x + 1\ndef g(x): return f(x)\n",
        "def f(x):\n    while True:\n        x += 1\ny = f(1)\n",
    ],
)
def test_nothing_is_said_where_none_may_be_meant(text: str) -> None:
    assert list(check_returns(parse_source(text))) == []


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("class A:\n    def f(self, x):\n        y = x + 1\n        y\n", 4, "Write: return y"),
        ("@wrapped\ndef f(a, b):\n    c = a\n    [c, b]\n", 4, "Write: return [c, b]"),
        ("def f(x):\n    if x:\n        return 1\n    x\n", 4, "Write: return x"),
    ],
)
def test_a_value_that_nobody_gets_is_an_error_whoever_calls(text: str, line: int, said: str) -> None:
    [finding] = check_returns(parse_source(text))
    assert (finding.severity, finding.line, finding.suggestion) == (Severity.ERROR, line, said)
    assert finding.edit is not None


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    global_name\n",  # the only statement: it may be there to fail
        "def f(x):\n    y = x\n    other\n",
        "def f(x):\n    y = x\n    [g(y)]\n",
        "def f(x):\n    y = x\n    x[y]\n",
        'def f(x):\n    y = x\n    "text"\n',
    ],
)
def test_a_last_line_that_may_do_something_is_left_alone(text: str) -> None:
    assert list(check_returns(parse_source(text))) == []


def test_a_method_that_never_returns_is_named_where_its_value_is_used() -> None:
    text = "class A:\n    def total(self, xs):\n        s = sum(xs)\n\na = A()\nb = a.total([1]) + 1\n"
    [finding] = check_returns(parse_source(text))
    assert (finding.severity, finding.line) == (Severity.WARNING, 3)
    assert "total() ends without return (line 3)" in finding.message
    assert finding.suggestion == "End total() with: return s"


def test_special_method_that_gives_nothing_is_a_warning() -> None:
    text = (
        "class A:\n    def __repr__(self):\n        x = 'A'\n    def __bool__(self):\n        bool(self.x)\n"
    )
    found = list(check_returns(parse_source(text)))
    assert [(f.severity, f.line, f.suggestion) for f in found] == [
        (Severity.WARNING, 3, "Write: return x"),
        (Severity.WARNING, 5, "Write: return bool(self.x)"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        "return 'A'",
        "raise TypeError",
        "pass",
        "yield 1",
        "while True: pass",
        "if self.x:\n            return 'A'",
    ],
)
def test_special_method_that_gives_something_or_never_ends_is_left_alone(body: str) -> None:
    assert list(check_returns(parse_source(f"class A:\n    def __iter__(self):\n        {body}\n"))) == []


def test_constant_that_a_special_method_should_give_is_told() -> None:
    [finding] = check_returns(
        parse_source('class A:\n    def __bool__(self):\n        """Say no."""\n        False\n')
    )
    assert (finding.line, finding.suggestion) == (4, "Write: return False")


@pytest.mark.parametrize(
    ("code", "replacement"),
    [
        ("def f(a) -> int:\n    x = a\n", "    x = a\n    return x"),
        ("def f(a) -> int: x = a\n", None),
        ("def f(a) -> int: \\\nx = a\n", None),
        ("def f(a) -> int:\n    x = a \\\n\n", None),
        ("def f(a) -> int:\n    x = (\n        a)\n", None),
    ],
)
def test_assigned_variable_is_returned_only_in_a_line_below(code: str, replacement: str | None) -> None:
    [function] = ast.parse(code).body
    assert isinstance(function, ast.FunctionDef)
    edit = build_return_edit(function.body[-1], code, "x")
    assert (edit.replacement if edit else None) == replacement


def test_many_functions_of_which_one_is_bound_again_are_read_in_little_time() -> None:
    functions = "".join(f"def f{n}(x):\n    y = x\n    print(y)\n" for n in range(2000))
    source = parse_source(f"{functions}f0 = other\nz = f0(1) + f1(1)\n")
    began = time.process_time()
    [finding] = check_returns(source)

    assert time.process_time() - began < SLOWER_BY
    assert finding.message.startswith("f1() ends without return")


@pytest.mark.parametrize(("chars", "edits"), [(0, 5), (MAX_TRIED_CHARS // 2, 1), (MAX_TRIED_CHARS + 1, 1)])
def test_edits_are_checked_as_long_as_the_source_is_short(chars: int, edits: int) -> None:
    functions = "".join(f"def f{n}(x):\n    y = x\n    y\n" for n in range(5))
    source = parse_source(f"{functions}z = f0(1) + f1(1)\n#{'-' * chars}\n")
    found = list(check_returns(source))

    assert len(found) == 5
    assert sum(one.edit is not None for one in found) == edits
