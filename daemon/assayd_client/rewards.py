"""Rewards for training: reads tasks with hidden tests, and computes the share that an answer passes.

Computes rewards for training, which are the shares of hidden tests that a model's answers pass.

    tests = HiddenTests(entry_point="double", tests=["assert double(2) == 4"])
    score(["def double(x): return 2 * x", "def double(x): return 4"], tests)    # [1.0, 1.0]

An answer can be a chat message with a fenced block. Identical answers to the same tests are judged only
once. If the daemon can't judge an answer, the reward is None instead of 0, because a busy sandbox must not
lower a model's reward.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from assayd.errors import RequestError
from assayd_client.address import Target
from assayd_client.asynchronous import AsyncClient
from assayd_client.errors import ClientError, Later


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
        """Return a submission that tests `code`. `timeout_s` is the timeout of each test."""
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

    Return an empty string if there is none. MBPP doesn't specify the name of a task's function, and one of
    its tasks requires a function `sum`.
    """
    try:
        tree = ast.parse(tests if isinstance(tests, str) else "\n".join(tests[:1]))
    except (SyntaxError, ValueError):
        return ""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    names = [called.id for called in calls if isinstance(called, ast.Name)]
    return next((name for name in names if not hasattr(builtins, name)), names[0] if names else "")


MAX_JUDGE_TRIES = 5
WAIT_S = 600.0
PAUSE_S = 1.0

__all__ = ["HiddenTests", "Rewards", "score", "score_async"]


class Rewards(list[float | None]):
    """The rewards of several answers, in order. None marks an answer that couldn't be judged."""

    @property
    def lost(self) -> int:
        """Return the number of answers that the daemon couldn't judge."""
        return sum(reward is None for reward in self)


async def score_async(
    completions: Sequence[str],
    tests: HiddenTests | Sequence[HiddenTests],
    *,
    all_or_nothing: bool = False,
    workers: int = 16,
    timeout_s: float | None = None,
    daemon: Target = None,
) -> Rewards:
    """Return the reward of each answer, which is the share of passed tests, or only 1 and 0.

    `tests` contains the tests for all answers, or a sequence with the tests for each answer. Up to `workers`
    answers are judged concurrently. `timeout_s` is the timeout of each test (default: the profile's limit).
    Raises: ValueError, if the numbers of answers and tests differ; ClientError, if the daemon refuses a
    request.
    """
    of_each = [tests] * len(completions) if isinstance(tests, HiddenTests) else list(tests)
    if len(of_each) != len(completions):
        raise ValueError(f"{len(completions)} answers, but {len(of_each)} tests")
    keys = [(code, repr(hidden)) for code, hidden in zip(completions, of_each, strict=True)]
    different = dict(zip(keys, of_each, strict=True))
    places = asyncio.Semaphore(workers)
    async with AsyncClient(daemon) as client:

        async def judge(code: str, hidden: HiddenTests) -> float | None:
            async with places:
                return await _score_submission(client, hidden.submission(code, timeout_s=timeout_s))

        found = await asyncio.gather(*(judge(code, hidden) for (code, _), hidden in different.items()))
    rewards = dict(zip(different, found, strict=True))
    return Rewards(_apply_all_or_nothing(rewards[key], all_or_nothing=all_or_nothing) for key in keys)


def score(
    completions: Sequence[str],
    tests: HiddenTests | Sequence[HiddenTests],
    *,
    all_or_nothing: bool = False,
    workers: int = 16,
    timeout_s: float | None = None,
    daemon: Target = None,
) -> Rewards:
    """Return the same rewards as `score_async`, even inside a running event loop."""
    asked = score_async(
        completions, tests, all_or_nothing=all_or_nothing, workers=workers, timeout_s=timeout_s, daemon=daemon
    )
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, asked).result()


async def _score_submission(client: AsyncClient, submission: dict[str, object]) -> float | None:
    """Return the score of a submission, or None if `TRIES` tries to judge it have failed.

    Raises: ClientError, if the daemon refuses the request itself, because a retry wouldn't succeed.
    """
    for _ in range(MAX_JUDGE_TRIES):
        try:
            attempt = await client.submit(submission, wait_s=WAIT_S)
            while attempt.verdict is None:
                attempt = await client.attempt(attempt.id, wait_s=WAIT_S)
        except ClientError as trouble:
            if not trouble.retryable and trouble.status:
                raise
            await asyncio.sleep(trouble.retry_after_s if isinstance(trouble, Later) else PAUSE_S)
            continue
        if attempt.verdict in {"validated", "failed"}:
            report = attempt.report
            return (report.score if report else None) or 0.0
    return None


def _apply_all_or_nothing(reward: float | None, *, all_or_nothing: bool) -> float | None:
    return reward if reward is None or not all_or_nothing else float(reward == 1)
