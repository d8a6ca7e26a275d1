"""Parses tasks and answers in benchmark formats, and builds submissions of the kind `solution`."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assayd.errors import RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenTests:
    """The tests of a task: code or assertions in `tests`, or calls with expected results in `cases`.

    `context` is code that runs before the solution and before the tests, e.g. for imports that both use.
    """

    entry_point: str
    tests: str | Sequence[str] = ()
    cases: Sequence[Mapping[str, Any]] = ()
    context: str = ""

    def submission(self, code: str, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Return a submission for an answer. `timeout_s` is the timeout of each test."""
        tests = self.tests if isinstance(self.tests, str) else list(self.tests)
        judged = {"tests": tests} if tests else {"cases": [dict(case) for case in self.cases]}
        payload = {"code": code, "entry_point": self.entry_point, "context": self.context}
        limits = {} if timeout_s is None else {"unit_timeout_s": timeout_s}
        return {"kind": "solution", "payload": {**payload, **judged}, "overrides": {"resources": limits}}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkTask:
    """A task of a benchmark. `prompt` is the beginning of the code that a completion continues."""

    task_id: str
    hidden: HiddenTests
    prompt: str = field(default="", repr=False)

    def build_code(self, sample: Mapping[str, Any]) -> str:
        """Return the code of a sample: its `solution`, or the prompt followed by its `completion`."""
        if "solution" in sample:
            return str(sample["solution"])
        return self.prompt + str(sample["completion"])


def parse_problem(task: Mapping[str, Any]) -> BenchmarkTask:
    """Return a task in the format of HumanEval, MBPP or assayd.

    The format is recognized by the field `test` (HumanEval), `test_list` (MBPP), or `tests` or `cases`
    (assayd). Raises: RequestError ``problem.form``.
    """
    task_id = str(task.get("task_id", ""))
    context = str(task.get("context") or task.get("test_setup_code") or "")
    tests = task.get("tests") or task.get("test") or task.get("test_list") or ()
    cases = task.get("cases") or ()
    entry_point = str(task.get("entry_point") or _guess_entry_point(tests))
    if not task_id or not entry_point or not (tests or cases):
        message = "a problem needs task_id, entry_point, and one of test, tests, test_list or cases"
        raise RequestError("problem.form", message)
    hidden = HiddenTests(entry_point=entry_point, tests=tests, cases=cases, context=context)
    prompt = str(task.get("prompt") or "") if "test" in task else ""
    return BenchmarkTask(task_id=task_id, hidden=hidden, prompt=prompt)


def _guess_entry_point(tests: str | Sequence[str]) -> str:
    """Return the function that the first assertion calls, preferring functions that aren't builtins.

    MBPP doesn't specify the name of a task's function, and one of its tasks requires a function `sum`.
    """
    try:
        tree = ast.parse(tests if isinstance(tests, str) else "\n".join(tests[:1]))
    except (SyntaxError, ValueError):
        return ""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    names = [called.id for called in calls if isinstance(called, ast.Name)]
    return next((name for name in names if not hasattr(builtins, name)), names[0] if names else "")
