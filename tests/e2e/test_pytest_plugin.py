"""The pytest plugin runs a project's tests in a container."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.daemons.daemon_process import DaemonProcess

pytestmark = pytest.mark.engine

MODULE = """
import pytest

@pytest.mark.assayd(files=["generated.py"])
@pytest.mark.parametrize("number", [1, 2])
def test_in_a_container(number, tmp_path):
    from generated import total
    assert total([number]) == 1

def test_here(assayd):
    submission = {"kind": "script", "payload": {"code": "print(1)"}}
    assert assayd.submit(submission, wait_s=60).verdict == "validated"
"""


def test_marked_test_runs_in_a_container_and_shows_why_it_fails(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    (tmp_path / "generated.py").write_text("def total(numbers): return sum(numbers)")
    (tmp_path / "test_generated.py").write_text(MODULE)
    command = [sys.executable, "-m", "pytest", "-p", "assayd_client.pytest_plugin", "-p", "no:cacheprovider"]
    environ = {**os.environ, "ASSAY_SOCKET": str(daemon.socket)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert "1 failed, 2 passed" in done.stdout
    assert "test_in_a_container[2]" in done.stdout
    assert "assert 2 == 1" in done.stdout
