"""Acknowledged data survives every end of the process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from assayd.model.report import Verdict
from assayd.store.jobs import open_job_store

PROGRAM = """
import asyncio, os, signal, sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from assayd.model.attempt import Attempt
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.store.jobs import open_job_store

def attempt(number):
    return Attempt(id=f"01{number:024d}", kind="code", policy="code", input_digest="d" * 64,
                   created_at=datetime(2026, 3, 1, tzinfo=UTC), peer=Peer(uid=1, gid=1, pid=1))

async def main():
    async with open_job_store(Path(sys.argv[1])) as jobs:
        async def one(number):
            await jobs.accept(attempt(number), b"{}")
            print("accepted", number, flush=True)
            if number % 2:
                await jobs.finish(replace(attempt(number), verdict=Verdict.VALIDATED))
                print("finished", number, flush=True)
            if number == 77:
                os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.gather(*(one(number) for number in range(200)))

asyncio.run(main())
"""


async def test_everything_answered_before_a_kill_is_on_record(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    answers = [line.split() for line in ended.stdout.splitlines()]
    assert ["finished", "77"] in answers
    async with open_job_store(tmp_path) as jobs:
        for what, number in answers:
            found = await jobs.get(f"01{int(number):024d}")
            assert found is not None
            assert what == "accepted" or found.verdict is Verdict.VALIDATED
        assert {attempt.verdict for attempt in await jobs.list_unfinished()} == {None}
