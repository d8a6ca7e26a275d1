"""The kind `ini` of tests/plugins, installed as the distribution that it is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "plugins/ini"
GOOD = "[server]\nhost = example\nport = 8080\nlog = /var/log/%(host)s\n"
FIELDS = {"server.host": "str", "server.port": "int", "server.log": "str"}


def submission(text: str = GOOD, **more: object) -> dict[str, object]:
    return {"kind": "ini", "payload": {"text": text, "fields": FIELDS}, **more}


def install(folder: Path) -> Path:
    """Install the kind into a folder that can be added to Python's path; downloads nothing."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    alone = ["--no-deps", "--no-index", "--no-build-isolation", "--no-compile"]
    done = subprocess.run(
        [*pip, *alone, "--target", folder, SOURCE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def environment(installed: Path) -> Mapping[str, str]:
    """Return the environment with which a process finds and enables the kind."""
    paths = [str(installed), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "ASSAYD_VALIDATORS": '["ini"]'}
