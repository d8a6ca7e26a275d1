"""The tutorial, line by line: its files, its commands, and their output."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from support.daemons.daemon_process import BIN, DaemonProcess
from support.texts import guide

pytestmark = pytest.mark.engine

PAGE = Path(__file__).resolve().parents[2] / "docs/tutorial.md"
EXIT_CODES = {"": 0, "failing": 1}


def test_commands_of_the_tutorial_print_the_output_that_it_shows(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ASSAYD_")}
    environ |= {"ASSAY_SOCKET": str(daemon.socket), "PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "200"}
    output, run, compared = "", 0, 0

    for block in guide.blocks(PAGE):
        if block.language == "sh" and block.word in EXIT_CODES:
            command = ["bash", "-euo", "pipefail", "-c", block.text]
            done = subprocess.run(
                command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=300
            )
            assert done.returncode == EXIT_CODES[block.word], f"{block.text}\n{done.stdout}\n{done.stderr}"
            output, run = done.stdout, run + 1
        elif block.language == "text":
            assert missing(block.text, output) == [], output
            compared += 1
        elif block.language != "sh":
            (tmp_path / block.word).write_text(block.text)

    assert (run, compared) == (10, 10)


def missing(shown: str, output: str) -> list[str]:
    """Return the page's lines that are missing from the output, or in a different order."""
    lacking, rest = [], output.splitlines()
    for line in shown.splitlines():
        pattern = ".*".join(map(re.escape, line.split("…")))
        at = next((number for number, text in enumerate(rest) if re.fullmatch(pattern, text)), None)
        if at is None:
            lacking.append(line)
        else:
            rest = rest[at + 1 :]
    return lacking
