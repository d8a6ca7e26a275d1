"""The daemon, which ends by SIGKILL at the step that is named in a file, once.

    python faulty_daemon.py FILE

The file is removed before the end, so that the next life goes on beyond that step.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from assayd.daemon import run
from assayd.ports.checkpoint import Step
from assayd.settings import load_settings


class Trap:
    """A checkpoint that kills this process at the step that it finds in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, step: Step) -> None:
        if self._file.exists() and self._file.read_text() == step:
            self._file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(run(load_settings(), checkpoint=Trap(Path(sys.argv[1]))))
