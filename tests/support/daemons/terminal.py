"""A real terminal, 80 by 24, as tmux has it: keys go in, a screen comes out."""

from __future__ import annotations

import shlex
import subprocess
import time
from pathlib import Path

WITHIN_S = 60.0


class Terminal:
    """A terminal of tmux with a server of its own. `dispose` ends both."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "tmux"

    def tmux(self, *words: str) -> str:
        """Have tmux do something, and return what it says."""
        command = ["tmux", "-f", "/dev/null", "-S", str(self._socket), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    def start(self, command: list[str]) -> None:
        """Start a program on a new terminal, whose last words stay."""
        line = f"{shlex.join(command)}; echo ended: $?; exec cat"
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", f"TERM=screen-256color {line}")

    def keys(self, *keys: str) -> None:
        """Press keys."""
        self.tmux("send-keys", *keys)

    @property
    def screen(self) -> str:
        """Return what stands there, without what it looks like."""
        return "\n".join(line.rstrip() for line in self.tmux("capture-pane", "-p").splitlines())

    def wait_for(self, *texts: str) -> str:
        """Return the screen as soon as it has all texts. tmux tells of no change: it is looked at again."""
        due = time.monotonic() + WITHIN_S
        while not all(text in (shown := self.screen) for text in texts):
            assert time.monotonic() < due, shown
            self.tmux("run-shell", "-d", "0.1", "true")
        return shown

    def dispose(self) -> None:
        """End what runs there."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False, capture_output=True)
