"""The state directory that a daemon accepts: its own, and not writable by others."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from assayd.daemon import USUALLY_S, Daemon, Notifier, build_startup_message, lock_state_dir
from assayd.errors import ConfigError
from assayd.settings import LogSettings, Settings
from assayd.wiring import Assembly
from support.daemons.daemon_fixtures import needs_root


def refusal(state_dir: Path) -> ConfigError:
    with pytest.raises(ConfigError) as refused, lock_state_dir(state_dir):
        pass
    return refused.value


def test_error_of_the_body_is_not_taken_for_a_lock_of_another_daemon(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), lock_state_dir(tmp_path / "state"):
        raise BlockingIOError


def test_missing_state_directory_is_made_for_its_user_alone(tmp_path: Path) -> None:
    with lock_state_dir(tmp_path / "state"):
        assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_state_directory_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(mode)
    assert "chmod 0700" in refusal(state).message
    assert list(state.iterdir()) == []


@needs_root
def test_state_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    os.chown(state, 65534, 65534)
    assert "owner 65534" in refusal(state).message


def test_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "lock").symlink_to(tmp_path / "elsewhere")
    assert "is a symbolic link" in refusal(state).message
    assert not (tmp_path / "elsewhere").exists()


def test_state_directory_in_use_may_be_free_later(tmp_path: Path) -> None:
    with lock_state_dir(tmp_path / "state"):
        taken = refusal(tmp_path / "state")
    assert (taken.code, taken.retryable) == ("state.taken", True)
    with lock_state_dir(tmp_path / "state"):
        pass


def test_person_is_told_what_to_type_and_a_program_is_not(tmp_path: Path) -> None:
    socket = tmp_path / "a b.sock"
    shown = build_startup_message(Settings(socket=socket, log=LogSettings(format="console")))
    assert f"export ASSAY_SOCKET='{socket}'; " in shown
    assert shown.endswith("/assay doctor")
    assert build_startup_message(Settings(socket=socket)) == ""


@pytest.mark.parametrize(
    ("shown", "under_way", "said"),
    [
        ("hello", 2, "assayd waits up to 30 s for 2 running attempts; press Ctrl-C again to stop now"),
        ("hello", 0, ""),
        ("", 2, ""),
    ],
)
def test_interrupted_daemon_says_what_it_waits_for(
    capsys: pytest.CaptureFixture[str], shown: str, under_way: int, said: str
) -> None:
    parts = cast("Assembly", SimpleNamespace(scheduler=SimpleNamespace(active=under_way)))
    Daemon(parts, Notifier({}), greeting=shown).log_stop()
    assert capsys.readouterr().err.startswith(said) if said else capsys.readouterr().err == ""


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Return the service manager's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "n"))
        heard.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
        yield heard


@pytest.fixture
def notifier(manager: socket.socket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notifier]:
    monkeypatch.setenv("WATCHDOG_USEC", "1")
    with closing(Notifier()) as notifier:
        yield notifier


def test_ready_comes_with_a_status(notifier: Notifier, manager: socket.socket) -> None:
    notifier.status = lambda: "serving"
    notifier.notify_ready()
    assert manager.recv(200) == b"READY=1\nSTATUS=serving"


def test_reload_and_stop_are_told(notifier: Notifier, manager: socket.socket) -> None:
    notifier.notify_reloading()
    notifier.notify_stopping()
    assert [manager.recv(200) for _ in range(2)] == [b"RELOADING=1", b"STOPPING=1\nSTATUS=starting"]


async def test_sign_of_life_carries_the_status_of_its_moment(
    notifier: Notifier, manager: socket.socket
) -> None:
    statuses = iter(["one", "two"])
    notifier.status = lambda: next(statuses, "more")
    async with notifier.send_heartbeats():
        heard = [await asyncio.to_thread(manager.recv, 200) for _ in range(2)]
    assert heard == [b"WATCHDOG=1\nSTATUS=one", b"WATCHDOG=1\nSTATUS=two"]


def test_manager_that_does_not_read_holds_up_nobody(notifier: Notifier, manager: socket.socket) -> None:
    for _ in range(10_000):
        notifier.notify_reloading()
    assert manager.recv(200) == b"RELOADING=1"


def test_without_an_address_in_its_environment_nothing_is_sent(manager: socket.socket) -> None:
    Notifier({}).notify_ready()
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        manager.recv(200)


@pytest.mark.parametrize(
    ("environ", "every_s"),
    [
        ({}, USUALLY_S),
        ({"WATCHDOG_USEC": "4000000"}, 2.0),
        ({"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid())}, 2.0),
        ({"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": "1"}, USUALLY_S),
        ({"WATCHDOG_USEC": "60000000"}, USUALLY_S),
        ({"WATCHDOG_USEC": "soon"}, USUALLY_S),
    ],
)
def test_life_is_shown_twice_in_what_the_watchdog_allows(environ: dict[str, str], every_s: float) -> None:
    assert Notifier(environ).every_s == every_s
