"""The OCI runtime of this host: its path, arguments and version."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assayd.errors import EngineError

CANDIDATES = (
    ("crun", "/usr/bin/crun"),
    ("crun", "/usr/local/bin/crun"),
    ("runc", "/usr/sbin/runc"),
    ("runc", "/usr/bin/runc"),
    ("runc", "/usr/local/sbin/runc"),
)
"""Runtimes in order of preference; crun needs a fifth less time and memory."""
_ASKED_WITHIN_S = 10.0
_VERSION = re.compile(r"^(?:crun|runc) version (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """An OCI runtime, identified by its absolute path."""

    name: str
    path: str
    version: str

    @property
    def can_keep_cgroup(self) -> bool:
        """Return whether the runtime can keep a container in the control group in which it was started."""
        return self.name == "crun"

    def arguments(self, folder: Path, name: str) -> Sequence[str]:
        """Return the command that starts the container of the bundle `folder`, and ends once it runs."""
        log = f"--log={'file:' if self.name == 'crun' else ''}{folder}/log"
        cgroups = ["--cgroup-manager=disabled"] if self.can_keep_cgroup else []
        started = ["run", "--detach", f"--bundle={folder}", f"--pid-file={folder}/pid", name]
        return [self.path, f"--root={folder}/state", log, *cgroups, *started]


def find_runtime(candidates: Sequence[tuple[str, str]] = CANDIDATES) -> Runtime:
    """Return the first runtime that exists and reports its version.

    Raises: EngineError ``engine.runtime``, with a remedy in its message.
    """
    for name, path in candidates:
        if Path(path).is_file():
            return Runtime(name=name, path=path, version=_read_version(path))
    message = "no OCI runtime found; install crun or runc (Debian: apt-get install crun)"
    raise EngineError("engine.runtime", message)


def _read_version(path: str) -> str:
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_ASKED_WITHIN_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise EngineError("engine.runtime", f"{path} doesn't report its version") from problem
    found = _VERSION.search(said.stdout)
    if found is None:
        raise EngineError("engine.runtime", f"{path} doesn't report its version")
    return found[1]
