"""Messages to the service manager."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from assayd.sd_notify import USUALLY_S, Notifier


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
    notifier.ready()
    assert manager.recv(200) == b"READY=1\nSTATUS=serving"


def test_reload_and_stop_are_told(notifier: Notifier, manager: socket.socket) -> None:
    notifier.notify_reloading()
    notifier.stopping()
    assert [manager.recv(200) for _ in range(2)] == [b"RELOADING=1", b"STOPPING=1\nSTATUS=starting"]


async def test_sign_of_life_carries_the_status_of_its_moment(
    notifier: Notifier, manager: socket.socket
) -> None:
    statuses = iter(["one", "two"])
    notifier.status = lambda: next(statuses, "more")
    async with notifier.living():
        heard = [await asyncio.to_thread(manager.recv, 200) for _ in range(2)]
    assert heard == [b"WATCHDOG=1\nSTATUS=one", b"WATCHDOG=1\nSTATUS=two"]


def test_manager_that_does_not_read_holds_up_nobody(notifier: Notifier, manager: socket.socket) -> None:
    for _ in range(10_000):
        notifier.notify_reloading()
    assert manager.recv(200) == b"RELOADING=1"


def test_without_an_address_in_its_environment_nothing_is_sent(manager: socket.socket) -> None:
    Notifier({}).ready()
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
