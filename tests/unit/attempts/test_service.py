from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from assayd.attempts.conclusion import NOTHING
from assayd.errors import ConfigError, RequestError
from assayd.model.health import HealthStatus
from support.daemons.small_daemon import How, small_daemon


async def test_attempt_whose_bundle_is_gone_is_shown_with_its_verdict(tmp_path: Path) -> None:
    async with small_daemon(tmp_path) as daemon:
        attempt = await daemon.finished(await daemon.accept("a"))
        await daemon.service.documents(attempt)  # what is kept in memory is given away
        (bundle,) = (tmp_path / "artifacts").rglob(f"*{attempt.id}")
        for folder in (bundle, *bundle.rglob("*")):
            if folder.is_dir():
                folder.chmod(0o700)
        shutil.rmtree(bundle)

        assert await daemon.service.documents(attempt) == (NOTHING, NOTHING)
        assert (await daemon.service.get(attempt.id)) == attempt


async def test_doctor_says_that_a_state_directory_is_a_copy(tmp_path: Path) -> None:
    live, copy = tmp_path / "live", tmp_path / "copy"
    live.mkdir()
    async with small_daemon(live) as daemon:
        rows = {row.check: row for row in await daemon.service.health()}
        assert rows["identity"].status is HealthStatus.OK
    former = (live / "daemon-id").read_text().split()[0]
    shutil.copytree(live, copy)
    async with small_daemon(copy) as daemon:
        rows = {row.check: row for row in await daemon.service.health()}
        assert rows["identity"].status is HealthStatus.WARN
        assert former in rows["identity"].detail


async def test_daemon_on_a_full_disk_is_not_ready(tmp_path: Path) -> None:
    async with small_daemon(tmp_path, How(min_free_bytes=2**60)) as daemon:
        with pytest.raises(RequestError, match="min_free_mb") as caught:
            await daemon.service.require_ready()
    assert caught.value.code == "not_ready"


async def test_daemon_with_room_on_its_disk_is_ready(tmp_path: Path) -> None:
    async with small_daemon(tmp_path) as daemon:
        await daemon.service.require_ready()
        assert daemon.service.ready() == (True, "")


async def test_examination_that_takes_too_long_is_said_to_and_the_others_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assayd.attempts.service.EXAMINED_S", 0.01)
    async with small_daemon(tmp_path) as daemon:
        monkeypatch.setattr(daemon.readiness, "check_isolation", asyncio.Event().wait)
        rows = {row.check: row for row in await daemon.service.health()}
    assert (rows["isolation"].status, rows["isolation"].detail) == (
        HealthStatus.WARN,
        "no answer within 0.01 s",
    )
    assert rows["kind small"].status is HealthStatus.OK
    assert rows["isolation"].took_s > 0


async def test_engine_that_does_not_answer_an_examination_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assayd.attempts.service.ENGINE_CHECK_TIMEOUT_S", 0.01)
    async with small_daemon(tmp_path) as daemon:
        monkeypatch.setattr(daemon.readiness, "run_health_checks", asyncio.Event().wait)
        row = (await daemon.service.health())[0]
    assert (row.check, row.status) == ("engine", HealthStatus.FAIL)


async def test_policies_that_could_not_be_read_again_are_told(tmp_path: Path) -> None:
    """Regression: a failed reload was a single log line until the next start failed."""
    folder = tmp_path / "policies"
    folder.mkdir()
    async with small_daemon(tmp_path, How(settings={"policy_folders": (folder,)})) as daemon:
        policies = daemon.policies

        async def told() -> tuple[HealthStatus, bool, str]:
            (row,) = (row for row in await daemon.service.health() if row.check == "policies")
            stale = "assayd_policies_stale 1.0" in daemon.service.metrics().decode()
            return row.status, stale, row.detail

        assert (await told())[:2] == (HealthStatus.OK, False)
        (folder / "mine.toml").write_text("[nothing]\n")
        with pytest.raises(ConfigError):
            policies.reload()
        status, stale, detail = await told()
        assert (status, stale) == (HealthStatus.WARN, True)
        assert "mine.toml" in detail
        (folder / "mine.toml").unlink()
        policies.reload()
        assert (await told())[:2] == (HealthStatus.OK, False)
