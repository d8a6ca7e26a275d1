"""`assay` as a process: interrupts, terminals, and no daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from assayd_client import PlainClient
from support.cluster.either import EITHER, serving_either
from support.daemons.fake_service import FakeService
from support.daemons.server import Served, serving
from support.daemons.small_daemon import submission
from support.texts.terminal import run_on_terminal

COMMAND = [sys.executable, "-c", "import sys; from assayd_client.cli import main; sys.exit(main())"]


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def socket(service: FakeService, tmp_path: Path) -> Iterator[str]:
    with serving(service, tmp_path / "s") as path:
        yield str(path)


@pytest.fixture(params=EITHER)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    with serving_either(request, tmp_path) as served:
        yield served


@pytest.fixture
def validate(tmp_path: Path) -> list[str]:
    """Return the arguments that submit a good extractor."""
    source = tmp_path / "extractor.py"
    source.write_text("def extract(path: str) -> dict:\n    return {}\n")
    return ["validate", "extractor", str(source), "--sample-path", "/a"]


@pytest.fixture
def items(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes a file with a line for each code."""

    def write(*codes: str) -> str:
        path = tmp_path / "items.jsonl"
        path.write_text("\n".join(json.dumps(submission(code)) for code in codes))
        return str(path)

    return write


def wait_for(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Wait until a condition holds, as long as the program runs."""
    while not condition():
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.01)
        assert process.poll() is None, "the program has ended"


def test_without_a_daemon_it_ends_with_four(validate: list[str], tmp_path: Path) -> None:
    command = [*COMMAND, "--socket", str(tmp_path / "none"), *validate]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1)


# Each prints by a way of its own.
LINES = {
    "table": ["kinds"],
    "json": ["kinds", "--json"],
    "group": ["policy", "list"],
    "help": ["validate", "--help"],
    "page": ["kinds", "extractor"],
    "line": ["version"],
    "wrong option": ["list", "--nothing"],
    "refused": ["show", "nothing"],
}


@pytest.fixture
def unread() -> Iterator[int]:
    """Return a pipe that nobody reads any more, like the one in front of `head`."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize("words", LINES.values(), ids=LINES.keys())
def test_without_a_reader_it_ends_with_the_code_of_a_closed_pipe(
    words: list[str], socket: str, unread: int
) -> None:
    command = [*COMMAND, "--socket", socket, *words]
    assert subprocess.run(command, stdout=unread, stderr=unread, check=False).returncode == 141


@pytest.mark.parametrize("words", [["kinds"], ["policy", "list"], ["version"]])
def test_without_a_reader_it_says_nothing(words: list[str], socket: str, unread: int) -> None:
    command = [*COMMAND, "--socket", socket, *words]
    assert subprocess.run(command, stdout=unread, stderr=subprocess.PIPE, check=False).stderr == b""


def test_an_interrupt_cancels_the_attempt_and_ends_with_five(
    service: FakeService, socket: str, validate: list[str]
) -> None:
    service.outcome = None
    command = [*COMMAND, "--socket", socket, *validate]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: service.waiting, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    (attempt,) = service.attempts.values()
    assert (process.returncode, attempt.verdict) == (5, "cancelled")
    assert (out, err) == ("", f"assay: {attempt.id} is cancelled\n")


def test_on_a_terminal_progress_is_shown_live(service: FakeService, socket: str, validate: list[str]) -> None:
    service.scripted = [
        ("state", {"state": "running"}),
        ("stage", {"name": "syntax", "status": "passed", "duration_ms": 0.3, "findings": 0}),
        ("unit", {"name": "/a", "index": 3, "total": 5, "status": "started"}),
        ("finished", {}),
    ]
    done, shown = run_on_terminal([*COMMAND, "--socket", socket, *validate])
    assert done.returncode == 0
    assert "syntax" in shown
    assert "sandbox ▸ 3/5 paths" in shown
    assert b"\x1b" not in done.stdout


def test_cancel_ends_a_batch_and_who_follows_it(served: Served, items: Callable[..., str]) -> None:
    served.call(served.daemon.checks.open.clear)
    command = [*COMMAND, "--socket", str(served.path), "batch", "run", items("c1", "c2"), "--name", "stopped"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        PlainClient(served.path) as client,
    ):
        wait_for(lambda: len(served.daemon.checks.waiting) == 2, process)
        client.cancel_batch("stopped")
        out, _ = process.communicate()
    served.call(served.daemon.checks.open.set)
    assert process.returncode == 5
    assert "2 cancelled" in out


def test_interrupt_leaves_the_batch_running_and_says_how_to_go_on(
    served: Served, items: Callable[..., str]
) -> None:
    served.call(served.daemon.checks.open.clear)
    file = items("i1", "i2")
    batch = [*COMMAND, "--socket", str(served.path), "batch"]
    command = [*batch, "run", file, "--name", "left"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: len(served.daemon.checks.waiting) == 2, process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    served.call(served.daemon.checks.open.set)
    assert process.returncode == 130
    assert f"follow it with: assay batch resume left {file}" in err
    assert "or stop it with: assay batch cancel left" in err
    done = subprocess.run([*batch, "resume", "left", file], capture_output=True, check=False)
    assert done.returncode == 0


def test_items_that_ended_in_error_are_run_again(served: Served, items: Callable[..., str]) -> None:
    batch = [*COMMAND, "--socket", str(served.path), "batch"]
    served.call(lambda: setattr(served.daemon.checks, "broken", ZeroDivisionError("a defect")))
    run = [*batch, "run", items("e1", "e2"), "--name", "troubled"]
    first = subprocess.run(run, capture_output=True, text=True, check=False)
    assert first.returncode == 3
    assert "assay batch retry troubled" in first.stdout

    served.call(lambda: setattr(served.daemon.checks, "broken", None))
    again = subprocess.run([*batch, "retry", "troubled"], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert "2 validated" in again.stdout
    assert "batch retry" not in again.stdout


def test_progress_is_shown_on_a_terminal(served: Served, items: Callable[..., str]) -> None:
    words = ["--socket", str(served.path), "batch", "run", items(*map(str, range(20)))]
    done, shown = run_on_terminal([*COMMAND, *words])
    assert done.returncode == 0
    assert "20/20 · 0 failed" in shown
    assert b"\x1b" not in done.stdout
