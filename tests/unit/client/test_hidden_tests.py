from __future__ import annotations

import pytest

from assayd.errors import RequestError
from assayd_client.rewards import HiddenTests, parse_problem


def test_problem_in_the_form_of_humaneval_continues_its_prompt() -> None:
    task = {
        "task_id": "H/0",
        "prompt": "def f(x):\n",
        "entry_point": "f",
        "test": "def check(candidate): ...",
    }
    problem = parse_problem(task)
    assert problem.build_code({"completion": "    return x\n"}) == "def f(x):\n    return x\n"
    assert problem.build_code({"solution": "f = abs"}) == "f = abs"
    assert problem.hidden == HiddenTests(entry_point="f", tests="def check(candidate): ...")


@pytest.mark.parametrize(
    "first",
    [
        "assert double(2) == 4",
        "assert not double(0)",
        "assert (double(2)) == 4",
        "assert set(double(2)) == {4}",
    ],
)
def test_problem_in_the_form_of_mbpp_names_the_function_by_its_first_assertion(first: str) -> None:
    problem = parse_problem(
        {"task_id": 7, "prompt": "Double it.", "test_list": [first], "test_setup_code": "a = 1"}
    )
    assert (problem.task_id, problem.hidden.entry_point) == ("7", "double")
    assert (problem.hidden.tests, problem.hidden.context) == ([first], "a = 1")
    assert problem.build_code({"completion": "def double(x): ..."}) == "def double(x): ..."


def test_function_may_have_the_name_of_a_builtin() -> None:
    problem = parse_problem({"task_id": 126, "test_list": ["assert sum(10, 15) == 6"]})
    assert problem.hidden.entry_point == "sum"


def test_submission_has_tests_or_cases() -> None:
    cases = [{"name": "two", "args": [2], "expected": 4}]
    by_cases = HiddenTests(entry_point="double", cases=cases).submission("code")
    assert by_cases["payload"]["cases"] == cases
    assert "tests" not in by_cases["payload"]
    by_tests = HiddenTests(entry_point="double", tests=("assert double(2) == 4",)).submission(
        "code", timeout_s=2
    )
    assert by_tests["payload"]["tests"] == ["assert double(2) == 4"]
    assert by_tests["overrides"] == {"resources": {"unit_timeout_s": 2}}


@pytest.mark.parametrize("task", [{}, {"task_id": "a"}, {"task_id": "a", "entry_point": "f"}, {"test": "x"}])
def test_problem_that_lacks_a_part_is_refused(task: dict[str, str]) -> None:
    with pytest.raises(RequestError, match="a problem needs task_id, entry_point"):
        parse_problem(task)
