"""The daemon is killed while it writes: acknowledged data is there byte for byte, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from assayd.model.report import Verdict
from assayd.store.artifacts import FileArtifactStore
from assayd.store.jobs import BUNDLES, open_job_store
from assayd.store.unsynced import UNSYNCED

ID = f"01{7:024d}"
FILES = {"stdout.log": b"said\n", "validation.json": b"{}" * 100, "files/out.csv": b"a,b\n" * 100}
PROGRAM = f"""
import asyncio, os, signal, sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from assayd.model.attempt import Attempt
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.ports.artifacts import Bundle
from assayd.store.artifacts import FileArtifactStore
from assayd.store.jobs import BUNDLES, open_job_store

last = sys.argv[2]
now = datetime(2026, 3, 1, tzinfo=UTC)
attempt = Attempt(id={ID!r}, kind="code", policy="code", input_digest="d" * 64, created_at=now,
                  peer=Peer(uid=1, gid=1, pid=1))
bundle = Bundle(attempt_id=attempt.id, run_number=1, created_at=now, category="code", platform="default",
                files={FILES!r}, truncated=frozenset(), manifest={{}})

def die(step):
    if step == last:
        os.kill(os.getpid(), signal.SIGKILL)

def seen(event, arguments):
    # The interpreter tells of each before it happens.
    if event == "open" and str(arguments[0]) in ("stdout.log", "manifest.json"):
        die(f"open {{arguments[0]}}")
    if event == "os.rename":
        die("rename")
    if event == "ctypes.dlsym" and arguments[1] == "syncfs":
        die("flush")

async def main():
    state = Path(sys.argv[1])
    async with open_job_store(state) as jobs:
        artifacts = FileArtifactStore(state / BUNDLES, jobs.unsynced)
        await jobs.accept(attempt, b"{{}}")
        die("accepted")
        written = await artifacts.write(bundle)
        die("bundle")
        ended = replace(attempt, verdict=Verdict.VALIDATED, bundle=written.location)
        await jobs.finish(replace(ended, artifacts=written.artifacts))
        die("verdict")
        await jobs.unsynced.flush_bundles()
        die("settled")

sys.addaudithook(seen)
asyncio.run(main())
"""


def killed(state: Path, step: str) -> None:
    """Write an attempt in a process that dies at this step."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(state), step], capture_output=True, check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


@pytest.mark.parametrize("step", ["accepted", "open stdout.log", "open manifest.json", "rename", "bundle"])
async def test_attempt_without_a_verdict_is_there_and_has_no_bundle_that_counts(
    tmp_path: Path, step: str
) -> None:
    killed(tmp_path, step)
    async with open_job_store(tmp_path) as jobs:
        assert jobs.unsynced is not None
        artifacts = FileArtifactStore(tmp_path / BUNDLES, jobs.unsynced)
        await artifacts.sweep()
        assert await jobs.unsynced.repair(artifacts.repair) == 0
        (left,) = await jobs.list_unfinished()
        assert (left.id, left.bundle) == (ID, None)
        found = [path.name for path in (tmp_path / BUNDLES).glob("*/*/*")]
        assert found == ([f"20260301T000000.000000Z_{ID}"] if step == "bundle" else [])


def _lose_all(bundle: Path) -> None:
    bundle.rename(bundle.with_name(f".tmp-{ID}"))


def _lose_contents(bundle: Path) -> None:
    (bundle / "stdout.log").chmod(0o600)
    os.truncate(bundle / "stdout.log", 0)


@pytest.mark.parametrize("step", ["verdict", "flush"])
@pytest.mark.parametrize("lose", [lambda bundle: None, _lose_all, _lose_contents])
async def test_verdict_has_its_bundle_whatever_the_disk_lost_of_the_folder(
    tmp_path: Path, step: str, lose: Callable[[Path], None]
) -> None:
    killed(tmp_path, step)
    lose(next((tmp_path / BUNDLES).glob("*/*/*")))
    await assert_verdict_and_bundle(tmp_path)


async def test_settled_bundle_needs_its_contents_no_more(tmp_path: Path) -> None:
    killed(tmp_path, "settled")
    await assert_verdict_and_bundle(tmp_path)


async def assert_verdict_and_bundle(state: Path) -> None:
    """Open the state like a starting daemon, and check what it finds."""
    async with open_job_store(state) as jobs:
        assert jobs.unsynced is not None
        artifacts = FileArtifactStore(state / BUNDLES, jobs.unsynced)
        await artifacts.sweep()
        await jobs.unsynced.repair(artifacts.repair)
        attempt = await jobs.get(ID)
        assert attempt is not None
        assert attempt.bundle is not None
        assert (attempt.verdict, await jobs.list_unfinished()) == (Verdict.VALIDATED, ())
        assert {name: await artifacts.read(attempt.bundle, name) for name in FILES} == FILES
        assert len(attempt.artifacts) == len(FILES) + 1
        kept = select(UNSYNCED.c.attempt_id)
        assert await jobs.access.read(lambda connection: connection.execute(kept).all()) == []
