"""`assay backup`: every verdict with its bundle, and no bundle that nobody would ever look for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from assayd.attempts import conclusion as record
from assayd.cli.backup import IDENTITY, back_up
from assayd.errors import RequestError
from assayd.ids import Ulids
from support.daemons.small_daemon import small_daemon


def bundles(state: Path) -> set[str]:
    return {str(path.parent.relative_to(state)) for path in state.rglob("manifest.json")}


async def test_copy_has_the_bundles_that_its_verdicts_name_and_no_others(tmp_path: Path) -> None:
    live, copy = tmp_path / "live", tmp_path / "copy"
    live.mkdir()
    (live / IDENTITY).write_text("d")
    async with small_daemon(live) as daemon:
        done = await daemon.finished(await daemon.accept("a"))
        # Those that come between the copy of the database and that of the bundles look like this one.
        late, failure = replace(done, id=Ulids().new()), record.Failure(code="late", message="")
        await record.give_up(late, b"{}", failure, daemon.shared.artifacts, daemon.clock)
        assert len(bundles(live)) == 2

        assert back_up(copy, live) == 1
        assert bundles(copy) == {f"artifacts/{done.bundle}"}

        more = await daemon.finished(await daemon.accept("b"))
        assert back_up(copy, live) == 1
        assert bundles(copy) == {f"artifacts/{each.bundle}" for each in (done, more)}
    async with small_daemon(copy) as restored:
        assert (await restored.service.wait(more.id, 10)).verdict is more.verdict


def test_state_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="the state directory cannot be copied"):
        back_up(tmp_path / "copy", tmp_path / "none")


async def test_bundle_that_is_missing_does_not_keep_the_others_from_being_copied(tmp_path: Path) -> None:
    live, copy = tmp_path / "live", tmp_path / "copy"
    live.mkdir()
    (live / IDENTITY).write_text("d")
    async with small_daemon(live) as daemon:
        first = await daemon.finished(await daemon.accept("a"))
        second = await daemon.finished(await daemon.accept("b"))
        (gone,) = (live / "artifacts").rglob(f"*{min(first.id, second.id)}")
        gone.parent.chmod(0o700)
        gone.chmod(0o700)
        gone.rename(tmp_path / "elsewhere")

        assert back_up(copy, live) == 1
        assert bundles(copy) == {f"artifacts/{max(first, second, key=lambda done: done.id).bundle}"}
