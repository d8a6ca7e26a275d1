"""Reads tasks of published benchmarks from files that a person has; the project ships none of them.

Decides: how a task and its reference solution become a submission. `bench/hidden_tests.py` sends it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assayd_client.rewards import HiddenTests, parse_problem
from bench.load import Submission

MBPP_TASKS = range(11, 211)
"""The first 200 tasks of MBPP's test split, by their numbers."""
PYTEST_PROFILE = "solution-pytest"
"""A profile whose image has pytest: QuixBugs' tests import it."""
_LOADED = "load_testdata"
_FLAGS = "import pytest\npytest.use_correct, pytest.run_slow = True, False\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A task with its reference solution; `script` is both as one program, if the benchmark runs it so."""

    name: str
    hidden: HiddenTests
    code: str
    script: str = ""
    policy: str | None = None

    def as_solution(self) -> Submission:
        """Return the solution, with its tests in another process."""
        return {**self.hidden.submission(self.code), "policy": self.policy}

    def as_script(self) -> Submission:
        """Return the solution and its tests as one program."""
        return {"kind": "script", "payload": {"code": self.script}}


def humaneval(path: Path) -> Iterator[Reference]:
    """Read HumanEval's file: a line has `prompt`, `canonical_solution`, `test` and `entry_point`."""
    for task in _lines(path):
        problem = parse_problem(task)
        code = f"{task['prompt']}{task['canonical_solution']}"
        script = f"{code}\n{task['test']}\ncheck({task['entry_point']})\n"
        yield Reference(name=problem.task_id, hidden=problem.hidden, code=code, script=script)


def mbpp(path: Path) -> Iterator[Reference]:
    """Read MBPP's file: an object per line with `task_id`, `code`, `test_list`, `test_setup_code`."""
    for task in _lines(path):
        if task["task_id"] in MBPP_TASKS:
            hidden = parse_problem(task).hidden
            script = "\n".join([task["test_setup_code"], task["code"], *task["test_list"]])
            yield Reference(name=f"MBPP/{task['task_id']}", hidden=hidden, code=task["code"], script=script)


def quixbugs(checkout: Path) -> Iterator[Reference]:
    """Read the correct programs of a checkout of QuixBugs, each with its tests and the cases they load."""
    node = (checkout / "python_testcases" / "node.py").read_text(encoding="utf-8")
    for path in sorted((checkout / "python_testcases").glob("test_*.py")):
        name = path.stem.removeprefix("test_")
        tests = path.read_text(encoding="utf-8")
        tests = tests.replace(f"from {_LOADED} import", f"# {_LOADED}:").replace(
            "from node import", "# node:"
        )
        cases = checkout / "json_testcases" / f"{name}.json"
        loaded = list(_lines(cases)) if cases.exists() else []
        hidden = HiddenTests(
            entry_point=name,
            tests=f"{_FLAGS}def load_json_testcases(_):\n    return {loaded!r}\n{tests}",
            context=node,
        )
        code = (checkout / "correct_python_programs" / f"{name}.py").read_text(encoding="utf-8")
        yield Reference(name=f"QuixBugs/{name}", hidden=hidden, code=code, policy=PYTEST_PROFILE)


def _lines(path: Path) -> Iterator[Any]:
    return (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
