"""One user fills the disk: the others keep their data and continue."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from assayd.errors import RequestError
from assayd.model.batch import BatchRequest
from assayd.model.records import LibraryEntry
from assayd.model.submission import Peer
from support.daemons.daemon_fixtures import needs_root
from support.daemons.small_daemon import How, SmallDaemon, small_daemon, submission

MIB = 2**20
GREEDY, MODEST = Peer(uid=2000, gid=2000, pid=2), Peer(uid=1000, gid=1000, pid=1)
HOW = How(min_free_bytes=8 * MIB)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a file system of 64 MiB."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", tmp_path], check=True)
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


def text(number: int) -> str:
    return f"x = {number}\n" + "#" * (MIB // 2)


async def endless() -> AsyncIterator[bytes]:
    for number in range(500):
        yield json.dumps(submission(text(number))).encode() + b"\n"


async def small_ones(daemon: SmallDaemon, count: int) -> list[str]:
    return [(await daemon.finished(await daemon.accept(f"y = {n}", peer=MODEST))).id for n in range(count)]


async def large_ones(daemon: SmallDaemon, count: int) -> None:
    for number in range(count):
        await daemon.finished(await daemon.accept(text(number), peer=GREEDY))


async def approved_ones(daemon: SmallDaemon, count: int) -> None:
    for number in range(count):
        attempt = await daemon.finished(await daemon.accept(text(number), peer=GREEDY))
        await daemon.library.approve(attempt, f"n{number}", GREEDY.uid)


async def entries(daemon: SmallDaemon) -> Sequence[LibraryEntry]:
    return await daemon.library.list(uid=GREEDY.uid, after=None, limit=500)


async def has_all(daemon: SmallDaemon, ids: list[str]) -> bool:
    attempts = [await daemon.jobs.get(each) for each in ids]
    return all(attempt is not None and attempt.bundle is not None for attempt in attempts)


@needs_root
async def test_endless_upload_is_refused_before_others_are_and_evicts_only_its_own(disk: Path) -> None:
    async with small_daemon(disk, HOW) as daemon:
        before = await small_ones(daemon, 5)
        batch = await daemon.batches.open(BatchRequest(name="endless"), peer=GREEDY)
        with pytest.raises(RequestError) as refused:
            await daemon.batches.receive(batch, endless(), sees=lambda _: True)
        assert refused.value.code == "quota.disk"

        after = await small_ones(daemon, 5)
        await daemon.service.collect_garbage(dry_run=False)
        assert await has_all(daemon, before + after)


@needs_root
async def test_one_attempt_after_the_other_is_refused_until_its_users_oldest_went(disk: Path) -> None:
    async with small_daemon(disk, HOW) as daemon:
        before = await small_ones(daemon, 5)
        with pytest.raises(RequestError) as refused:
            await large_ones(daemon, 500)
        assert refused.value.code == "quota.disk"
        others = await small_ones(daemon, 5)

        swept = await daemon.service.collect_garbage(dry_run=False)
        assert swept.bundles > 0
        assert await has_all(daemon, before + others)
        await daemon.service.require_ready()


@needs_root
async def test_approvals_are_refused_before_they_fill_the_disk_and_leave_room_to_others(disk: Path) -> None:
    """Regression: approvals were never removed, so a disk full of them refused everybody forever."""
    async with small_daemon(disk, HOW) as daemon:
        before = await small_ones(daemon, 5)
        with pytest.raises(RequestError) as refused:
            await approved_ones(daemon, 500)
        assert refused.value.code == "quota.library"
        approved = [entry.name for entry in await entries(daemon)]
        assert len(approved) > 10
        with pytest.raises(RequestError) as refused:
            await large_ones(daemon, 500)
        assert refused.value.code == "quota.disk"

        await daemon.service.collect_garbage(dry_run=False)
        await daemon.service.require_ready()
        assert await has_all(daemon, before + await small_ones(daemon, 5))
        assert [entry.name for entry in await entries(daemon)] == approved
