"""A real terminal in tmux, 80 × 24: tests press keys and read the screen."""

from __future__ import annotations

import shlex
import subprocess
import time
from pathlib import Path

WITHIN_S = 60.0


class Terminal:
    """A tmux terminal with its own server; `dispose` ends both."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "tmux"

    def tmux(self, *words: str) -> str:
        """Run a tmux command and return its output."""
        command = ["tmux", "-f", "/dev/null", "-S", str(self._socket), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    def start(self, command: list[str]) -> None:
        """Start a program in a new terminal, which stays open when the program ends."""
        line = f"{shlex.join(command)}; echo ended: $?; exec cat"
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", f"TERM=screen-256color {line}")

    def keys(self, *keys: str) -> None:
        """Press keys."""
        self.tmux("send-keys", *keys)

    @property
    def screen(self) -> str:
        """Return the text on the screen, without colors."""
        return "\n".join(line.rstrip() for line in self.tmux("capture-pane", "-p").splitlines())

    def wait_for(self, *texts: str) -> str:
        """Return the screen as soon as it contains all texts; polls, because tmux reports no changes."""
        due = time.monotonic() + WITHIN_S
        while not all(text in (shown := self.screen) for text in texts):
            assert time.monotonic() < due, shown
            self.tmux("run-shell", "-d", "0.1", "true")
        return shown

    def dispose(self) -> None:
        """End the terminal and its server."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False, capture_output=True)
