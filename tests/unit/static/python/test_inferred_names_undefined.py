"""Undefined names, and similar code without findings."""

from __future__ import annotations

import pytest

from assayd.model.finding import Finding, Severity
from assayd.static.python.inferred_names import check_undefined
from assayd.static.python.source import parse_source


def found(text: str, **more: object) -> list[Finding]:
    return list(check_undefined(parse_source(text), **more))  # type: ignore[arg-type]


def test_a_name_in_a_branch_that_never_runs_is_an_error_with_what_was_meant() -> None:
    text = "def f(path):\n    parts = path\n    if not path:\n        return prats[1]\n    return parts\n"
    [finding] = found(text)
    assert (finding.rule, finding.severity, finding.line, finding.column) == (
        "name.undefined",
        Severity.ERROR,
        4,
        16,
    )
    assert finding.suggestion == "Did you mean 'parts'?"
    assert finding.edit is not None
    assert finding.edit.replacement == "        return parts[1]"


def test_one_finding_stands_for_all_places() -> None:
    [finding] = found("def f(total):\n    x = totla\n    return totla + x\n")
    assert "also in line 3" in finding.message
    assert finding.edit is not None
    assert finding.edit.replacement == "    x = total\n    return total + x"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("def f(start):\n    return statr + 1\n", "start"),
        ("def f(char):\n    return chra\n", "char"),
        ("def helper(x): return x\ny = hleper(1)\n", "helper"),
        ("import json\njosn.loads('1')\n", "json"),
        ("x = pritn\nprint(x)\n", "print"),
    ],
)
def test_the_nearest_scope_comes_before_builtins(text: str, meant: str) -> None:
    [finding] = found(text)
    assert finding.suggestion == f"Did you mean '{meant}'?"


@pytest.mark.parametrize(
    "text",
    [
        "from x import *\ny = z\n",
        "try:\n    unicode\nexcept NameError:\n    unicode = None\n",
        "try:\n    x = basestring\nexcept NameError:\n    x = str\n",
        "import sys\nif sys.version_info[0] < 3:\n    text = unicode\nelse:\n    text = str\n",
        "globals().update(a=1)\nprint(a)\n",
        "exec('a = 1')\nprint(a)\n",
        "from __future__ import annotations\ndef f(x: Missing) -> Missing: return x\n",
        "def f():\n    x: Missing = 1\n    return x\n",
        "class A:\n    def f(self): return __class__\n",
        "class A:\n    __x = 1\n    def f(self): return self.__x\n",
        "print(__name__, __file__, __doc__)\n",
        "def f():\n    global n\n    n = 1\nprint(n)\n",
        "match [1]:\n    case [first, *rest]: print(first, rest)\n",
        "with open('x') as (a, b): print(a, b)\n",
        "print([y for x in [[1]] for y in x], (z := 1), z)\n",
        "import os.path\nos.sep\n",
        "lambda *a, **k: (a, k)\n",
        "x: int\nprint(x)\n",
    ],
)
def test_nothing_is_said_of_names_that_may_be_bound(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("def f(x):\n    if x: return revcomp(x)\n", Severity.WARNING),
        ("print(revcomp)\n", Severity.ERROR),
        ("def f(x):\n    if x: return json.loads(x)\n", Severity.ERROR),
    ],
)
def test_a_foreign_name_inside_a_function_is_left_to_the_run(text: str, severity: Severity) -> None:
    [finding] = found(text)
    assert finding.severity is severity


def test_names_that_are_given_are_bound() -> None:
    assert found("print(data)\n", given={"data"}) == []
    assert len(found("print(data)\n")) == 1


def test_no_edit_where_two_names_are_as_near() -> None:
    [finding] = found("part = parts = 1\nprint(partz)\n")
    assert finding.edit is None
    assert (finding.suggestion or "").startswith("Did you mean 'part")
