"""The commands of the operators' guide, run unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.daemons.daemon_process import BIN, DaemonProcess
from support.texts import guide

pytestmark = pytest.mark.engine


@pytest.mark.parametrize(
    "page", [page for page in guide.PAGES if guide.commands(page)], ids=lambda page: page.name
)
def test_commands_of_the_guide_do_what_they_should(page: Path, daemon: DaemonProcess, tmp_path: Path) -> None:
    guide.write_files(page, tmp_path)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAYD_")}
    environ |= {"ASSAY_SOCKET": str(daemon.socket), "PATH": f"{BIN}:{os.environ['PATH']}"}

    for block in guide.blocks(page):
        if block.language == "sh" and not block.word:
            command = ["bash", "-euo", "pipefail", "-c", block.text]
        elif block.language == "python":
            command = [sys.executable, "-c", block.text]
        else:
            continue
        done = subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
        assert done.stdout
