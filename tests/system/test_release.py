"""`make release` as one command; it runs installed_release.py on its artifacts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]


def test_release_is_built_twice_and_each_part_installed(tools: Path, docker_host: str) -> None:
    environ = {**os.environ, "DOCKER_HOST": docker_host}
    done = subprocess.run(
        ["make", "release"], cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=3600
    )

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "both builds are the same, byte for byte" in done.stderr
    assert (ROOT / "dist/release/SHA256SUMS").is_file()
