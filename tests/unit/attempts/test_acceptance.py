"""Every reason for which nothing is accepted is told by every interface, and so is its end."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from assayd.daemon import Daemon
from assayd.errors import RequestError
from assayd.model.health import HealthStatus
from assayd.sd_notify import Notifier
from assayd.wiring import Assembly
from support.daemons.small_daemon import How, SmallDaemon, small_daemon


@dataclass(frozen=True)
class Told:
    """What each interface says."""

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
    """Put a file where the folder of the artifacts was."""
    shutil.rmtree(folder / "artifacts")
    (folder / "artifacts").touch()


async def test_daemon_that_accepts_attempts_says_so_everywhere(tmp_path: Path) -> None:
    async with small_daemon(tmp_path) as daemon:
        said = await told(daemon)
    assert (said.readyz, said.refusal, said.gauge, said.doctor["disk"]) == ("", "", True, HealthStatus.OK)
    assert said.status.startswith("serving")


async def test_full_disk_is_told_everywhere(tmp_path: Path) -> None:
    """Only /readyz told it: doctor, gauge, service manager and log said that all was well."""
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
    """/readyz answered 500, and doctor said that all was well."""
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
    """/readyz and the gauge said that it was ready until its end."""
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
            await daemon.acceptance.look()
            (tmp_path / "artifacts").unlink()
            for _ in range(2):
                assert await daemon.acceptance.look() == (True, "")
    events = [line["event"] for line in logs if line["event"].startswith("daemon.")]
    assert events == ["daemon.accepts_nothing", "daemon.accepts_attempts"]


@pytest.mark.parametrize(("missing", "refused"), [("python", "image python doesn't exist"), ("forth", "")])
async def test_kind_without_its_image_alone_is_refused(tmp_path: Path, missing: str, refused: str) -> None:
    async with small_daemon(tmp_path) as daemon:
        daemon.readiness.missing_image = missing
        said = await told(daemon)
    assert said.refusal == refused
    assert said.readyz == ""
