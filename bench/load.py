"""Ways of sending work: one after the other, at a steady rate, and as much as fits."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context

from bench.daemon import Answer, Daemon

Submission = dict[str, object]

BATCH_LOOK_S = 0.2
"""How often a batch is looked at."""
UNDER_WAY_S = 2.0
"""How long a program that is to run beside has until it counts as under way."""


async def one_by_one(
    daemon: Daemon, submission: Submission, count: int, *, pause_s: float = 0.0
) -> list[Answer]:
    """Send the next when the last is answered, with a pause between."""
    answers = []
    async with daemon.connection() as connection:
        for _ in range(count):
            answers.append(await connection.submit(submission))
            await asyncio.sleep(pause_s)
    return answers


async def open_loop(
    daemon: Daemon, submission: Submission, *, rate_per_s: float, seconds: float
) -> list[Answer]:
    """Send at a steady rate whether or not answers come; latency counts from the time it was due."""
    count = int(rate_per_s * seconds)
    began = time.perf_counter() + 0.1

    async def send(place: int) -> Answer:
        due = began + place / rate_per_s
        async with daemon.connection() as connection:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            late = max(0.0, time.perf_counter() - due)
            answer = await connection.submit(submission)
        return Answer(
            took_s=answer.took_s + late,
            verdict=answer.verdict,
            cause=answer.cause,
            warm=answer.warm,
            timings_ms=answer.timings_ms,
        )

    tasks: list[asyncio.Task[Answer]] = []
    async with asyncio.TaskGroup() as group:
        for place in range(count):
            tasks.append(group.create_task(send(place)))
            await asyncio.sleep(max(0.0, began + (place - 1) / rate_per_s - time.perf_counter()))
    return [task.result() for task in tasks]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """What came of sending as much as fits."""

    answers: list[Answer]
    per_s: float


async def flood(
    daemon: Daemon,
    submission: Submission,
    *,
    concurrency: int,
    count: int | None = None,
    seconds: float = 0.0,
) -> Flood:
    """Keep so many submissions under way, until the count is reached or the time is up."""
    began = time.perf_counter()
    left = iter(range(count)) if count is not None else None
    answers: list[Answer] = []

    def more() -> bool:
        if left is not None:
            return next(left, None) is not None
        return time.perf_counter() < began + seconds

    async def worker() -> None:
        async with daemon.connection() as connection:
            while more():
                answers.append(await connection.submit(submission))

    await asyncio.gather(*(worker() for _ in range(concurrency)))
    return Flood(answers=answers, per_s=len(answers) / (time.perf_counter() - began))


async def run_batch(daemon: Daemon, submission: Callable[[int], Submission], lines: int) -> float:
    """Send a batch of lines that all differ, wait until each has its verdict, and give how long that took."""
    body = b"".join(json.dumps(submission(number)).encode() + b"\n" for number in range(lines))
    began = time.perf_counter()
    async with daemon.connection() as connection:
        status, answer = await connection.request("POST", "/v1/batches?name=bench", body)
        if status not in {200, 201, 202}:
            raise RuntimeError(f"the daemon answered {status}: {answer[:500]!r}")
        batch = json.loads(answer)
        while batch["finished_at"] is None:
            await asyncio.sleep(BATCH_LOOK_S)
            batch = json.loads((await connection.request("GET", f"/v1/batches/{batch['name']}"))[1])
    return time.perf_counter() - began


async def beside(
    daemon: Daemon, submission: Submission, count: int, hostile: Sequence[Submission], *, pause_s: float
) -> list[Answer]:
    """Send good ones one by one, while another program sends each hostile one again and again."""
    attacker = get_context("spawn").Process(target=attack, args=(daemon, hostile), daemon=True)
    attacker.start()
    try:
        await asyncio.sleep(UNDER_WAY_S)
        answers = await one_by_one(daemon, submission, count, pause_s=pause_s)
        if not attacker.is_alive():
            raise RuntimeError("the hostile program ended early; nothing was measured beside it")
        return answers
    finally:
        attacker.kill()
        attacker.join()


def attack(daemon: Daemon, hostile: Sequence[Submission]) -> None:
    """Send each as soon as it is answered, until killed."""

    async def send_all() -> None:
        await asyncio.gather(*(flood(daemon, each, concurrency=1, seconds=math.inf) for each in hostile))

    asyncio.run(send_all())
