"""`assay validate --watch` on a terminal: each report replaces the previous one."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from support.daemons.fake_service import FakeService
from support.daemons.server import serving

COMMAND = [sys.executable, "-c", "import sys; from assayd_client.cli import main; sys.exit(main())"]
CLEARED = "\x1b[H\x1b[2J\x1b[3J"
WAITING = "waiting for the next save"


def read_until(descriptor: int, times: int) -> str:
    """Read a terminal until it has said this number of times that it waits."""
    shown = b""
    while shown.count(WAITING.encode()) < times:
        shown += os.read(descriptor, 2**16)
    return shown.decode()


def test_every_save_is_shown_anew_until_an_interrupt(tmp_path: Path) -> None:
    service, file = FakeService(), tmp_path / "extractor.py"
    service.outcome = "failed_at_run"
    file.write_text("one = 1\n")
    ours, theirs = pty.openpty()
    with serving(service, tmp_path / "s") as socket:
        words = [
            "--socket",
            str(socket),
            "validate",
            "extractor",
            str(file),
            "--sample-path",
            "/a",
            "--watch",
        ]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        process = subprocess.Popen(COMMAND + words, stdout=theirs, stderr=theirs, env=environment)
        try:
            first = read_until(ours, 1)
            service.outcome = "validated"
            file.write_text("two = 2, longer\n")
            second = read_until(ours, 1)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()
            os.close(ours)
            os.close(theirs)

    assert first.startswith(CLEARED)
    assert "Failed" in first
    assert second.lstrip().startswith(CLEARED)
    assert "Passed" in second
    assert len(service.submissions) == 2
