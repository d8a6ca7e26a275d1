from __future__ import annotations

import ast

import pytest

from assayd.kinds.code.judging import compare_second_run, find_unread_inputs, needs_second_run
from assayd.model.policy import ExecutionPolicy, NetworkMode, NetworkPolicy, QualityPolicy, RuleLevel

DECLARED = "rows: list\nlimit: int\n"
POLICY = ExecutionPolicy(name="p")


def unread(code: str) -> list[str]:
    text = DECLARED + code
    return [finding.message for finding in find_unread_inputs(text, ast.parse(text), ["rows", "limit"])]


@pytest.mark.parametrize(
    "code",
    [
        "result: list = rows[:3]\n",
        "unused = limit + 1\nresult: list = rows\n",
        "def first(): return rows[:limit]\nresult: list = rows\n",
        "def first(limit): return rows[:limit]\nresult: list = first(3)\n",
        "len([limit])\nresult: list = rows\n",
    ],
)
def test_an_input_that_nothing_depends_on_is_found(code: str) -> None:
    assert unread(code) == ["The code never reads the input 'limit'."]


@pytest.mark.parametrize(
    ("code", "is_told_so"),
    [
        ("print('at most', limit)\nresult: list = rows\n", True),
        ("assert limit > 0\nresult: list = rows\n", True),
        ("assert isinstance(limit, int)\nresult: list = rows\n", True),
        ("for n in range(limit):\n    pass\nresult: list = rows\n", False),
        ("if False:\n    result: list = rows[:limit]\nresult = rows\n", False),
    ],
)
def test_an_input_that_is_read_to_no_effect_is_found(code: str, is_told_so: bool) -> None:
    [message] = unread(code)
    assert message.endswith("the code only prints or checks it.") is is_told_so


@pytest.mark.parametrize(
    "code",
    [
        "print(rows.pop(limit))\nresult: list = rows\n",
        "assert rows.pop(limit)\nresult: list = rows\n",
        "for n in range(limit):\n    rows.append(n)\nresult: list = rows\n",
        "if rows:\n    result: list = rows[:limit]\nelse:\n    result = []\n",
        "while limit:\n    limit -= 1\nresult: list = rows\n",
    ],
)
def test_an_input_that_is_read_to_some_effect_is_left_alone(code: str) -> None:
    assert unread(code) == []


def test_an_input_that_is_replaced_before_it_is_read_is_found() -> None:
    [message] = unread("rows = [1, 2]\nresult: list = rows[:limit]\n")
    assert message == "The code replaces the input 'rows' before it reads it."


@pytest.mark.parametrize(
    "code",
    [
        "result: list = rows[:limit]\n",
        "def first(): return rows[:limit]\nresult: list = first()\n",
        "rows = sorted(rows)\nresult: list = rows[:limit]\n",
        "result: list = [globals()[name] for name in ('rows', 'limit')]\n",
        "n = limit\nif rows:\n    n += 1\nresult: int = n\n",
        "class A:\n    size = limit\nresult: list = [A.size, rows]\n",
        "for row in rows:\n    limit -= row\nresult: int = limit\n",
    ],
)
def test_an_input_that_is_read_is_left_alone(code: str) -> None:
    assert unread(code) == []


def test_a_second_run_is_for_code_that_may_differ_and_leaves_no_traces() -> None:
    assert needs_second_run("import random\nresult: float = random.random()\n", POLICY)
    assert not needs_second_run("result: int = 1\n", POLICY)
    assert not needs_second_run("import random\nopen('x', 'a').write(str(random.random()))\n", POLICY)


def test_a_second_run_is_not_for_code_that_reaches_hosts_or_where_rules_are_off() -> None:
    listed = ExecutionPolicy(name="p", network=NetworkPolicy(mode=NetworkMode.ALLOWLIST))
    off = ExecutionPolicy(name="p", quality=QualityPolicy(severity=RuleLevel.OFF))
    assert not needs_second_run("import random\n", listed)
    assert not needs_second_run("import random\n", off)


def test_two_runs_that_differ_are_told_and_a_failed_second_run_is_not() -> None:
    [finding] = compare_second_run(1.5, (2.5,), "result: float = random()\n", 1)
    assert (finding.rule, finding.line) == ("quality.varying", 1)
    assert compare_second_run(1.5, (1.5,), "", 1) == compare_second_run(1.5, (None,), "", 1) == []
