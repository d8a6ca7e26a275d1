"""`assay console` as a process: its link and its end."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection

import httpx

from assayd_console.serving import open_listener
from support.daemons.fake_service import FakeService
from support.daemons.server import serving


@contextmanager
def start(
    socket: Path, *arguments: str | Path, stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[str]]:
    """Run the console while the body runs; it isn't awaited if the body fails."""
    command = [Path(sys.executable).parent / "assay", "--socket", socket, "console", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=stdin, stdout=pipe, stderr=pipe, text=True) as console:
        try:
            yield console
        finally:
            console.kill()


def log_in(link: str) -> int:
    place, _, token = link.strip().partition("/#")
    return httpx.post(f"{place}/login", content=token, headers={"Origin": place}, timeout=60).status_code


def test_whoever_uses_the_link_before_the_server_runs_waits_for_it() -> None:
    with open_listener(0) as listener, create_connection(listener.getsockname(), timeout=60) as early:
        accepted, peer = listener.accept()
        with accepted:
            assert peer == early.getsockname()


def test_link_that_is_printed_logs_in_once(tmp_path: Path) -> None:
    with serving(FakeService(), tmp_path / "s") as socket, start(socket) as console:
        assert console.stdout is not None
        link = console.stdout.readline()

        assert link.startswith("http://127.0.0.1:")
        assert [log_in(link), log_in(link)] == [204, 403]
        console.terminate()
        assert console.wait(30) == 0


def test_enter_in_the_terminal_prints_a_new_link(tmp_path: Path) -> None:
    terminal, other_end = pty.openpty()
    with serving(FakeService(), tmp_path / "s") as socket, start(socket, stdin=other_end) as console:
        assert console.stdout is not None
        used = console.stdout.readline()
        assert log_in(used) == 204
        assert "Enter" in console.stdout.readline()

        os.write(terminal, b"\n")

        assert [log_in(used), log_in(console.stdout.readline())] == [403, 204]
    os.close(terminal)
    os.close(other_end)


def test_link_in_a_file_is_its_owners_is_renewed_and_goes_with_the_program(tmp_path: Path) -> None:
    file = tmp_path / "link"
    with serving(FakeService(), tmp_path / "s") as socket, start(socket, "--link-file", file) as console:
        assert console.stderr is not None
        while not file.exists():
            assert console.poll() is None, console.stderr.read()
        first = file.read_text()

        assert file.stat().st_mode & 0o777 == 0o600
        assert log_in(first) == 204
        assert [log_in(file.read_text()), log_in(first)] == [204, 403]
        console.terminate()
        assert console.wait(30) == 0
        assert not file.exists()


def test_port_that_is_taken_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with serving(FakeService(), tmp_path / "s") as socket, start(socket) as console:
        assert console.stdout is not None
        port = console.stdout.readline().partition("/#")[0].rpartition(":")[2]
        with start(socket, "--port", port) as other:
            assert other.wait(30) == 2
            assert other.stderr is not None
            assert "choose another with --port" in other.stderr.read()
        console.terminate()
