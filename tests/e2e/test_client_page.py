"""The examples of the client library's page, run against a daemon."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.daemons.daemon_process import DaemonProcess
from support.texts import guide

pytestmark = pytest.mark.engine

PAGE = Path(__file__).resolve().parents[2] / "docs/client.md"


@pytest.mark.parametrize(
    ("beginning", "printed"),
    [
        ("from assayd_client import Client, QueueFull", "validated []\n"),
        ("from assayd_client import Client\n", "failed\nvalidated\n"),
    ],
)
def test_sample_of_the_page_prints_what_it_should(
    daemon: DaemonProcess, beginning: str, printed: str
) -> None:
    """Regression: the first example failed, because its extractor returned an empty dict."""
    [sample] = [block.text for block in guide.blocks(PAGE) if block.text.startswith(beginning)]
    environ = {**os.environ, "ASSAY_SOCKET": str(daemon.socket)}
    done = subprocess.run(
        [sys.executable, "-c", sample], env=environ, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.stdout, done.stderr) == (printed, "")


def test_tests_of_the_page_pass(daemon: DaemonProcess, tmp_path: Path) -> None:
    [sample] = [block.text for block in guide.blocks(PAGE) if block.text.startswith("import pytest")]
    (tmp_path / "generated.py").write_text("def total(numbers):\n    return sum(numbers)\n")
    (tmp_path / "test_page.py").write_text(sample)
    environ = {**os.environ, "ASSAY_SOCKET": str(daemon.socket)}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "assayd_client.pytest_plugin", "--rootdir", tmp_path]
    done = subprocess.run(
        [*words, tmp_path],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
