"""The daemon, which ends by SIGKILL at the step that is named in a file, once.

    python faulty_daemon.py FILE [EXECUTOR_PROGRAM]

The file is removed before the end, so that the next run goes on beyond that step.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from assayd.daemon import run
from assayd.settings import load_settings
from assayd.wiring import PartOverrides


class Step(StrEnum):
    """A moment before which everything has taken effect, and after which nothing has."""

    ACCEPTED = "accepted"
    """The submission is durable."""
    CHECKED = "checked"
    """The static stages have ended."""
    LEASED = "leased"
    """A container was handed out; nobody knows for which attempt."""
    JOURNALLED = "journalled"
    """It is on record which attempt has which container."""
    RAN = "ran"
    """The units have ended; the container still exists."""
    JUDGED = "judged"
    """The result was judged."""
    BUNDLED = "bundled"
    """The bundle is durable."""
    RECORDED = "recorded"
    """The verdict is durable."""


BEFORE = {"lease": Step.LEASED, "write": Step.JUDGED}
"""The steps that are reached when a call begins, by its name."""
AFTER = {
    "accept": Step.ACCEPTED,
    "check": Step.CHECKED,
    "get_checked": Step.CHECKED,
    "lease": Step.JOURNALLED,
    "run": Step.RAN,
    "write": Step.BUNDLED,
    "finish": Step.RECORDED,
}
"""The steps that are reached when a call has ended."""
PARTS = {
    "DatabaseJobStore": {"accept", "lease", "finish"},
    "FileArtifactStore": {"write"},
    "Analyst": {"check"},
    "Sandbox": {"run"},
}
"""The calls of each part that are watched."""


class Trap:
    """Kills this process at the step that a file names."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, part: Any) -> Any:
        """Watch a part of the daemon."""
        return Watched(part, PARTS[type(part).__name__], self)

    def reach(self, step: Step | None) -> None:
        if step is not None and self._file.exists() and self._file.read_text() == step:
            self._file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


class Watched:
    """Passes every call on; some calls are steps of an attempt."""

    def __init__(self, part: Any, calls: set[str], trap: Trap) -> None:
        self._part = part
        self._calls = calls
        self._trap = trap

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        return self._stepping(name, found) if name in self._calls else found

    def _stepping(self, name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def watched(*arguments: Any, **named: Any) -> Any:
            self._trap.reach(BEFORE.get(name))
            result = await call(*arguments, **named)
            self._trap.reach(AFTER.get(name))
            return result

        return watched


if __name__ == "__main__":
    overrides = PartOverrides(wrap=Trap(Path(sys.argv[1])))
    if len(sys.argv) > 2:
        overrides = PartOverrides(executor_program=sys.argv[2])
    sys.exit(run(load_settings(), overrides))
