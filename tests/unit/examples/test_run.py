"""`make run` before its first container: a socket in use, and a step that fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.daemons.fake_service import FakeService
from support.daemons.server import serving

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout whose set-up fails after printing much."""
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "run.py", tmp_path / "examples")
    (tmp_path / "Makefile").write_text("runtime:\n\t@seq 1 1000; exit 7\nengine:\n\t@true\n")
    return tmp_path


def run(checkout: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "examples/run.py"]
    return subprocess.run(words, cwd=checkout, capture_output=True, text=True, timeout=60, check=False)


def test_failed_step_shows_the_end_of_its_output_and_where_the_rest_is(checkout: Path) -> None:
    done = run(checkout)

    assert done.returncode == 1
    assert done.stdout == "[1/5] Python environment "
    said = done.stderr.splitlines()
    assert said[0] == "failed"
    assert "1000" in said
    assert "1" not in said
    assert said[-1] == "`make runtime` failed; all of its output: .run/setup.log"
    assert "\n1\n2\n" in (checkout / ".run" / "setup.log").read_text()


def test_daemon_that_serves_there_already_is_not_used_and_nothing_is_set_up(checkout: Path) -> None:
    """Regression: the examples were validated by the other daemon, and it reported success."""
    (checkout / ".run").mkdir()
    with serving(FakeService(), checkout / ".run" / "assayd.sock"):
        done = run(checkout)

    assert done.returncode == 2
    assert "a daemon serves on .run/assayd.sock already" in done.stderr
    assert f"ASSAY_SOCKET={checkout}/.run/assayd.sock .venv/bin/assay doctor" in done.stderr
    assert not (checkout / ".run" / "setup.log").exists()
