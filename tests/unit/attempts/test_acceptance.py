"""Every interface reports each reason for refusing attempts, and its end."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from assayd.attempts.acceptance import USAGE_CACHE_S, DiskQuota
from assayd.daemon import Daemon, Notifier
from assayd.errors import RequestError, StoreError
from assayd.model.health import HealthStatus
from assayd.store.attempt_queries import StoredUsage
from assayd.wiring import Assembly
from support.daemons.small_daemon import How, SmallDaemon, small_daemon


@dataclass(frozen=True)
class Told:
    """The reports of each interface."""

    readyz: str
    gauge: bool
    doctor: Mapping[str, HealthStatus]
    status: str
    refusal: str


async def told(daemon: SmallDaemon) -> Told:
    manager = Notifier({})
    Daemon(cast("Assembly", daemon), manager)
    return Told(
        readyz=await refusal(daemon.service.require_ready),
        gauge="assayd_ready 1.0" in daemon.service.metrics().decode(),
        doctor={row.check: row.status for row in await daemon.service.health()},
        status=manager.status(),
        refusal=await refusal(daemon.accept),
    )


async def refusal(act: Callable[[], Any]) -> str:
    try:
        await act()
    except RequestError as refused:
        return refused.message if refused.code == "not_ready" else refused.code
    return ""


def block(folder: Path) -> None:
    """Replace the folder of artifacts with a file."""
    shutil.rmtree(folder / "artifacts")
    (folder / "artifacts").touch()


async def test_daemon_that_accepts_attempts_says_so_everywhere(tmp_path: Path) -> None:
    async with small_daemon(tmp_path) as daemon:
        said = await told(daemon)
    assert (said.readyz, said.refusal, said.gauge, said.doctor["disk"]) == ("", "", True, HealthStatus.OK)
    assert said.status.startswith("serving")


async def test_full_disk_is_told_everywhere(tmp_path: Path) -> None:
    """Regression: only /readyz reported it; doctor, gauge, service manager and log said that all was well."""
    with capture_logs() as logs:
        async with small_daemon(tmp_path, How(min_free_bytes=2**60)) as daemon:
            said = await told(daemon)
    assert "min_free_mb" in said.readyz
    assert (said.refusal, said.gauge, said.doctor["disk"]) == (said.readyz, False, HealthStatus.FAIL)
    assert said.readyz in said.status
    assert [line["reason"] for line in logs if line["event"] == "daemon.accepts_nothing"] == [said.readyz]


async def test_folder_of_artifacts_that_cannot_be_used_is_told_everywhere_without_its_path(
    tmp_path: Path,
) -> None:
    """Regression: /readyz answered 500, and doctor said that all was well."""
    with capture_logs() as logs:
        async with small_daemon(tmp_path) as daemon:
            block(tmp_path)
            said = await told(daemon)
            (row,) = (row for row in await daemon.service.health() if row.check == "disk")
    assert said.readyz == "bundles can't be written (store.unwritable); operators: run `assay doctor`"
    assert (said.refusal, said.gauge, said.doctor["disk"]) == (said.readyz, False, HealthStatus.FAIL)
    assert said.readyz in said.status
    assert "check owner, mode and mount options" in row.detail
    assert [line["reason"] for line in logs if line["event"] == "daemon.accepts_nothing"] == [said.readyz]


async def test_folder_of_artifacts_that_is_gone_is_made_again(tmp_path: Path) -> None:
    async with small_daemon(tmp_path) as daemon:
        shutil.rmtree(tmp_path / "artifacts")
        assert (await told(daemon)).readyz == ""
    assert (tmp_path / "artifacts").is_dir()


async def test_daemon_that_stops_says_so_everywhere(tmp_path: Path) -> None:
    """Regression: /readyz and the gauge reported ready until the end."""
    with capture_logs() as logs:
        async with small_daemon(tmp_path) as daemon:
            daemon.acceptance.stop()
            said = await told(daemon)
    assert said.readyz == "the daemon is stopping" == said.refusal
    assert (said.gauge, said.doctor["stopping"]) == (False, HealthStatus.FAIL)
    assert "stopping" in said.status
    assert [line["reason"] for line in logs if line["event"] == "daemon.accepts_nothing"] == [said.readyz]


async def test_end_of_a_reason_is_logged_once(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with small_daemon(tmp_path) as daemon:
            block(tmp_path)
            await daemon.acceptance.check()
            (tmp_path / "artifacts").unlink()
            for _ in range(2):
                assert await daemon.acceptance.check() == (True, "")
    events = [line["event"] for line in logs if line["event"].startswith("daemon.")]
    assert events == ["daemon.accepts_nothing", "daemon.accepts_attempts"]


@pytest.mark.parametrize(("missing", "refused"), [("python", "image python doesn't exist"), ("forth", "")])
async def test_kind_without_its_image_alone_is_refused(tmp_path: Path, missing: str, refused: str) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.readiness.missing_image = missing
        said = await told(daemon)
    assert said.refusal == refused
    assert said.readyz == ""


MIB = 2**20
GREEDY, MODEST, NEWCOMER, OPERATOR = 2000, 1000, 3000, 0


class Disk:
    """A disk, a database and a clock that the test controls."""

    def __init__(self, *, free_mb: int, database_mb: int | None = None, **held: StoredUsage) -> None:
        self.free = free_mb * MIB
        self.held: Mapping[int, StoredUsage] = {int(uid[1:]): usage for uid, usage in held.items()}
        self.now = 0.0
        self.looks = 0
        self.away = False
        self.quota = DiskQuota(
            self.jobs,
            self.artifacts,
            self.clock,
            min_free_bytes=100 * MIB,
            operators=frozenset({OPERATOR}),
            database_bytes=None if database_mb is None else database_mb * MIB,
        )

    @property
    def jobs(self) -> Any:
        return SimpleNamespace(usage=self._usage)

    @property
    def artifacts(self) -> Any:
        return SimpleNamespace(free_bytes=self._free_bytes)

    @property
    def clock(self) -> Any:
        return SimpleNamespace(monotonic=lambda: self.now)

    async def _usage(self) -> Mapping[int, StoredUsage]:
        self.looks += 1
        await asyncio.sleep(0)
        if self.away:
            raise StoreError("store.unreachable", "the database does not answer", retryable=True)
        return self.held

    async def _free_bytes(self) -> int:
        return self.free

    async def refusal(self, uid: int, size_mb: int = 1) -> str | None:
        """Return the error code with which a user is refused."""
        try:
            await self.quota.require(uid, document_bytes=size_mb * MIB)
        except RequestError as refused:
            return refused.code
        return None


def bundles(mb: int) -> StoredUsage:
    return StoredUsage(attempts=1, disk_bytes=mb * MIB)


async def test_who_holds_the_most_is_refused_when_room_gets_short_and_others_are_not() -> None:
    disk = Disk(free_mb=150, u2000=bundles(5000), u1000=bundles(300))
    assert await disk.refusal(GREEDY) == "quota.disk"
    assert [await disk.refusal(uid) for uid in (MODEST, NEWCOMER, OPERATOR)] == [None, None, None]


async def test_nobody_is_refused_while_there_is_room() -> None:
    disk = Disk(free_mb=200, u2000=bundles(5000))
    assert await disk.refusal(GREEDY) is None


async def test_who_holds_little_is_not_refused_however_short_the_room() -> None:
    disk = Disk(free_mb=101, u2000=bundles(100))
    assert await disk.refusal(GREEDY) is None


async def test_everybody_is_refused_below_what_is_to_remain() -> None:
    disk = Disk(free_mb=99)
    assert [await disk.refusal(uid) for uid in (NEWCOMER, OPERATOR)] == ["not_ready"] * 2


async def test_documents_of_a_user_take_no_more_than_is_left() -> None:
    disk = Disk(free_mb=400)
    assert [await disk.refusal(GREEDY, 100) for _ in range(4)] == [None] * 3 + ["quota.disk"]
    assert [await disk.refusal(uid, 100) for uid in (NEWCOMER, OPERATOR)] == [None, None]


async def test_documents_of_a_user_take_no_more_of_a_database_elsewhere_than_is_left_of_its_limit() -> None:
    disk = Disk(free_mb=10_000, database_mb=100, u1000=StoredUsage(document_bytes=60 * MIB))
    with pytest.raises(RequestError, match=r"40 MB are left of cluster.database_mb \(100\)") as caught:
        await disk.quota.require(MODEST, document_bytes=MIB)
    assert caught.value.code == "quota.disk"
    assert [await disk.refusal(uid, 20) for uid in (NEWCOMER, NEWCOMER, OPERATOR)] == [
        None,
        "quota.disk",
        None,
    ]
    assert await disk.refusal(GREEDY, 1) is None


async def test_room_in_a_database_comes_back_when_what_waited_has_its_verdict() -> None:
    disk = Disk(free_mb=10_000, database_mb=100, u2000=StoredUsage(document_bytes=60 * MIB))
    assert await disk.refusal(GREEDY, 10) == "quota.disk"
    disk.held, disk.now = {}, USAGE_CACHE_S
    assert await disk.refusal(GREEDY, 10) is None


async def test_burst_at_the_start_waits_for_what_others_hold_of_a_database_and_looks_once() -> None:
    disk = Disk(free_mb=10_000, database_mb=100, u1000=StoredUsage(document_bytes=60 * MIB))
    burst = await asyncio.gather(*(disk.refusal(NEWCOMER, 20) for _ in range(4)))
    assert burst == [None, "quota.disk", "quota.disk", "quota.disk"]
    assert disk.looks == 1


async def test_nobody_passes_while_what_others_hold_of_a_database_cannot_be_seen() -> None:
    disk = Disk(free_mb=10_000, database_mb=100, u1000=StoredUsage(document_bytes=90 * MIB))
    disk.away = True
    for _ in range(2):
        with pytest.raises(StoreError):
            await disk.quota.require(NEWCOMER, document_bytes=20 * MIB)
    disk.away = False
    assert await disk.refusal(NEWCOMER, 20) == "quota.disk"


async def test_line_whose_document_is_stored_already_is_not_refused_for_documents() -> None:
    disk = Disk(free_mb=400, u2000=StoredUsage(document_bytes=500 * MIB))
    assert await disk.refusal(GREEDY, 20) == "quota.disk"
    assert await disk.refusal(GREEDY, 0) is None


async def test_refusal_is_taken_back_when_what_is_held_has_become_less() -> None:
    disk = Disk(free_mb=150, u2000=bundles(5000), u1000=bundles(300))
    assert await disk.refusal(GREEDY) == "quota.disk"
    disk.held, disk.now = {GREEDY: bundles(90)}, USAGE_CACHE_S
    assert await disk.refusal(GREEDY) is None


async def test_what_is_held_is_not_looked_up_while_little_was_added() -> None:
    disk = Disk(free_mb=1700)
    for expected in (0, 0, 1):
        disk.now += USAGE_CACHE_S
        await disk.refusal(GREEDY, 45)
        assert disk.looks == expected


async def test_refusal_says_what_is_held_what_is_left_and_what_to_do() -> None:
    disk = Disk(free_mb=150, u2000=bundles(5000))
    with pytest.raises(RequestError) as caught:
        await disk.quota.require(GREEDY)
    assert caught.value.retryable
    assert "50 MB of the disk are left above limits.min_free_mb" in caught.value.message
    assert "this user's bundles and submissions take 5000 MB" in caught.value.message
    assert "try again" in caught.value.message
