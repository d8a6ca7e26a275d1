"""Correct programs beside ten busy loops: none fails, though many take longer than their limit."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from assayd.engines.docker import DockerEngine
from assayd.model.policy import ImportMode, ImportPolicy
from assayd.model.run import Cause, Limits, Program, RunResult, RunSpec, Unit
from assayd.sandbox.sandbox import Sandbox
from support.engines.sandboxes import run, sandbox_on

pytestmark = [pytest.mark.system, pytest.mark.engine]

BUSY_LOOPS = 10
PROGRAMS = 100
AT_ONCE = 2
LIMITS = Limits(timeout_s=30, unit_timeout_s=20, memory_bytes=128 * 2**20, max_processes=6)
UNTIL = """
import time
def until(seconds, work):
    began, rounds = time.process_time(), 0
    while time.process_time() - began < seconds:
        assert work(rounds), rounds
        rounds += 1
    return rounds
"""
WORKS = (
    """
def work(n):
    sieve = bytearray(b"\1") * 20000
    for i in range(2, 142):
        if sieve[i]:
            sieve[i * i :: i] = bytes(len(range(i * i, 20000, i)))
    return sum(sieve) - 2 == 2262
""",
    """
import hashlib
def work(n):
    digest = b""
    for _ in range(5000):
        digest = hashlib.sha256(digest).digest()
    return len(digest) == 32
""",
    """
def queens(n, row=0, columns=0, left=0, right=0):
    if row == n:
        return 1
    free, found = ((1 << n) - 1) & ~(columns | left | right), 0
    while free:
        place = free & -free
        free ^= place
        found += queens(n, row + 1, columns | place, (left | place) << 1, (right | place) >> 1)
    return found
def work(n):
    return queens(7) == 40
""",
    """
import random
def work(n):
    chance = random.Random(n)
    found = sorted(chance.random() for _ in range(20000))
    return all(a <= b for a, b in zip(found, found[1:]))
""",
    """
import collections, re
TEXT = "the quick brown fox jumps over the lazy dog " * 500
def work(n):
    return collections.Counter(re.findall(r"[a-z]+", TEXT))["the"] == 1000
""",
    """
from fractions import Fraction
def work(n):
    return sum(Fraction(1, k * (k + 1)) for k in range(1, 200)) == Fraction(199, 200)
""",
)
CALL = "def extract(seconds):\n    return until(seconds, work)\n"
FORKING = """
import os
def extract(seconds):
    # As a shell script does it: one short process after the other.
    began = sum(os.times()[:4])
    count = 0
    while sum(os.times()[:4]) - began < seconds:
        child = os.fork()
        if child == 0:
            os._exit(0 if work(count) else 1)
        assert os.waitpid(child, 0)[1] == 0
        count += 1
    return count
"""
IN_PARTS = """
import os
def extract(seconds):
    # Four at once, each a quarter of the work.
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            until(seconds / 4, work)
            os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    return len(children)
"""
THREADS = """
import threading
def extract(seconds):
    done = []
    for _ in range(2):
        threading.Thread(target=lambda: done.append(until(seconds / 2, work))).start()
    while len(done) < 2:
        time.sleep(0.05)
    return sum(done)
"""


def programs() -> Iterator[tuple[str, float]]:
    """Return program texts with their seconds of work, from 1 to 3."""
    for number in range(PROGRAMS):
        way = (CALL, CALL, CALL, FORKING, IN_PARTS, THREADS)[number // len(WORKS) % 6]
        yield UNTIL + WORKS[number % len(WORKS)] + way, 1 + 2 * (number * 37 % PROGRAMS / PROGRAMS) ** 3


def spec_of(source: str, seconds: float) -> RunSpec:
    """Return the spec of one program."""
    call = {"source": source, "filename": "code.py", "function": "extract", "builtins": "full"}
    arguments = {**call, "args": [seconds], "kwargs": {}}
    unit = Unit(name="u", program=Program.CALL, arguments=arguments, deadline_s=LIMITS.unit_timeout_s)
    return RunSpec(
        image="python", limits=LIMITS, imports=ImportPolicy(mode=ImportMode.OBSERVE), units=(unit,)
    )


@pytest.fixture
def busy() -> Iterator[None]:
    """Keep the machine busy."""
    spin = [sys.executable, "-I", "-S", "-c", "while True: pass"]
    loops = [subprocess.Popen(spin) for _ in range(BUSY_LOOPS)]
    yield
    for loop in loops:
        assert loop.poll() is None, "it was to be busy all the time"
        loop.kill()
        loop.wait()


@pytest.fixture
async def sandbox(docker_host: str) -> AsyncIterator[Sandbox]:
    """Return a sandbox."""
    engine = DockerEngine(base_url=docker_host)
    async with sandbox_on(engine) as made:
        yield made
    await engine.close()


async def test_right_programs_beside_ten_busy_loops_are_all_judged_right(
    sandbox: Sandbox, busy: None, record_property: object
) -> None:
    waiting = list(programs())
    results: list[RunResult] = []

    async def work_off() -> None:
        while waiting:
            result = await run(sandbox, spec_of(*waiting.pop()))
            results.append(result)
            usage = result.units[0].usage
            print(f"{result.outcome.cause}: {usage.wall_s:.1f} s, used {usage.cpu_s:.1f} s", flush=True)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work_off())

    wrong = [result.outcome for result in results if result.outcome.cause is not Cause.COMPLETED]
    walls = sorted(unit.usage.wall_s for result in results for unit in result.units)
    late = sum(wall_s > LIMITS.unit_timeout_s for wall_s in walls)
    print(f"{len(results)} programs, longest {walls[-1]:.1f} s, {late} beyond the limit by the wall clock")
    print(f"load {os.getloadavg()[0]:.1f}, wrong: {len(wrong)}")
    assert (len(results), wrong) == (PROGRAMS, [])
