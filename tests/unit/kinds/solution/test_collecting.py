"""The tests in a text, and the names that they import from the solution."""

from __future__ import annotations

import ast

import pytest

from assayd.kinds.solution.collecting import collect_tests, find_solution_modules, find_used_names
from assayd.kinds.solution.payload import SolutionPayload

FORMS = {
    "check": ("def check(candidate):\n    assert candidate(1)\n", ["check"]),
    "assertions": ("x = 1\nassert f(x)\n\nassert f(2)\n", ["assert_line_2", "assert_line_4"]),
    "assertion in a loop": ("for x in (1, 2):\n    assert f(x)\n", ["tests"]),
    "functions": ("def test_a(): ...\ndef helper(): ...\nasync def test_b(): ...\n", ["test_a", "test_b"]),
    "parameters": (
        "@pytest.mark.parametrize('x', [1, 2])\ndef test_a(x): ...\n@pytest.mark.parametrize('x', rows())\ndef test_b(x): ...\n",
        ["test_a[0]", "test_a[1]", "test_b"],
    ),
    "plain class": ("class TestIt:\n    def test_a(self): ...\n    def other(self): ...\n", ["TestIt.test_a"]),
    "unittest": (
        "class Base(unittest.TestCase):\n    def test_a(self): ...\nclass More(Base):\n    def test_b(self): ...\n",
        ["Base.test_a", "More.test_b", "More.test_a"],
    ),
    "nothing": ("limit = 3\n", []),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_tests_of_a_text_are_found_by_their_form(form: str) -> None:
    text, names = FORMS[form]
    payload = SolutionPayload(code="", entry_point="f", tests=text)
    assert [test.name for test in collect_tests(payload, ast.parse(text))] == names


def test_names_that_judge_are_never_taken_from_the_solution() -> None:
    tree = ast.parse(
        "assert abs(total(1)) == helper(isclose(sqrt(2), math.pi), x=len([]))\ndef own(): ...\nown()\n"
    )
    assert set(find_used_names([tree])) == {"total", "helper"}


def test_unknown_modules_stand_for_the_solution() -> None:
    tree = ast.parse(
        "import math, answer.inner\nfrom solution import f\nfrom unittest import TestCase\nimport pytest\n"
    )
    assert find_solution_modules([tree]) == ("answer.inner", "solution")
