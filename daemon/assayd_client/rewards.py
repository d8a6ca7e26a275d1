"""Computes rewards for training, which are the shares of hidden tests that a model's answers pass.

    tests = HiddenTests(entry_point="double", tests=["assert double(2) == 4"])
    score(["def double(x): return 2 * x", "def double(x): return 4"], tests)    # [1.0, 1.0]

An answer can be a chat message with a fenced block. Identical answers to the same tests are judged only
once. If the daemon can't judge an answer, the reward is None instead of 0, because a busy sandbox must not
lower a model's reward.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from assayd_client.address import Target
from assayd_client.asynchronous import AsyncClient
from assayd_client.errors import ClientError, Later
from assayd_client.hidden_tests import HiddenTests

TRIES = 5
WAIT_S = 600.0
PAUSE_S = 1.0

__all__ = ["HiddenTests", "Rewards", "score", "score_async"]


class Rewards(list[float | None]):
    """The rewards of several answers, in the order of the answers."""

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

    `tests` contains the tests for all answers, or a sequence with the tests for each answer. Up to
    `workers` answers are judged concurrently. `timeout_s` is the timeout of each test (default: the
    profile's limit).
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
    for _ in range(TRIES):
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
