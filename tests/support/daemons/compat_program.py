"""The program `assay compat` in front of a test's daemon."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PROGRAM = "from assayd_client.cli import main; import sys; sys.exit(main(sys.argv[1:]))"


@contextmanager
def compat_program(daemon: Sequence[str], options: Sequence[str] = ()) -> Iterator[tuple[str, int]]:
    """Run it on a free port until the body ends; give its URL and its process id.

    `daemon` has the options that name the daemon or gateway.
    """
    command = [sys.executable, "-c", PROGRAM, *daemon, "compat", "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1], process.pid
        finally:
            process.terminate()
            process.wait(30)


def memory_mb(pid: int) -> float:
    """Return a process's peak memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
