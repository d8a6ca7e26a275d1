"""Run a program whose standard error is a terminal, and see what it shows there."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress


def run_on_terminal(command: Sequence[str]) -> tuple[subprocess.CompletedProcess[bytes], str]:
    """Return the ended process, and everything that it wrote to its terminal.

    It is read as it comes: a terminal holds little, and the program would wait.
    """
    ours, theirs = pty.openpty()
    shown = bytearray()

    def read() -> None:
        with suppress(OSError):  # what the kernel says when nobody holds the other end any more
            while piece := os.read(ours, 2**16):
                shown.extend(piece)

    reader = threading.Thread(target=read)
    reader.start()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=environment, check=False)
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)
    return done, shown.decode(errors="replace")
