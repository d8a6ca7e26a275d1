"""`assay backup` copies every verdict with its bundle, and no bundle without a verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from assayd.attempts import conclusion as record
from assayd.clock import UlidGenerator
from assayd.errors import ConfigError, RequestError
from assayd_client import ClientError, DaemonUnreachable
from assayd_client.cli.upkeep import IDENTITY, back_up_state, find_state_dir
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
        late, failure = replace(done, id=UlidGenerator().new()), record.Failure(code="late", message="")
        await record.ConclusionWriter(artifacts=daemon.artifacts, clock=daemon.clock).conclude_unstartable(
            late, b"{}", failure
        )
        assert len(bundles(live)) == 2

        assert back_up_state(copy, live) == 1
        assert bundles(copy) == {f"artifacts/{done.bundle}"}

        more = await daemon.finished(await daemon.accept("b"))
        assert back_up_state(copy, live) == 1
        assert bundles(copy) == {f"artifacts/{each.bundle}" for each in (done, more)}
    async with small_daemon(copy) as restored:
        assert (await restored.service.wait(more.id, 10)).verdict is more.verdict


def test_state_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="the state directory can't be copied"):
        back_up_state(tmp_path / "copy", tmp_path / "none")


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

        assert back_up_state(copy, live) == 1
        assert bundles(copy) == {f"artifacts/{max(first, second, key=lambda done: done.id).bundle}"}


class Asked:
    """A client that returns a given answer, or fails."""

    def __init__(self, answer: dict[str, object] | ClientError) -> None:
        self._answer = answer

    def daemon(self) -> dict[str, object]:
        if isinstance(self._answer, ClientError):
            raise self._answer
        return self._answer


def test_state_directory_is_the_one_that_the_daemon_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of the copying user may differ from the daemon's."""
    monkeypatch.setenv("ASSAYD_STATE_DIR", "/nowhere")
    client = Asked({"state_dir": "/srv/assayd", "database_in_state": True})
    assert find_state_dir(client) == Path("/srv/assayd")


def test_state_directory_is_that_of_the_settings_while_no_daemon_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ASSAYD_STATE_DIR", "/srv/stopped")
    assert find_state_dir(Asked(DaemonUnreachable("unreachable", "no answer"))) == Path("/srv/stopped")


def test_daemon_that_does_not_tell_is_not_guessed_at() -> None:
    with pytest.raises(ClientError, match="operators"):
        find_state_dir(Asked(ClientError("peer.not_operator", "only operators may do this")))


def test_database_elsewhere_needs_its_own_tools() -> None:
    with pytest.raises(ConfigError, match="database_url is set"):
        find_state_dir(Asked({"state_dir": "/srv/assayd", "database_in_state": False}))
