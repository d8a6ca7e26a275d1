"""What the system tests share: tools that a checkout has not got, built once below .run/cache."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".run/cache"


@pytest.fixture(scope="session")
def tools() -> Path:
    """Give the folder of tools; what is missing on this machine is installed."""
    subprocess.run([ROOT / "deploy/dev/tools.sh", CACHE / "tools"], check=True, timeout=900)
    return CACHE / "tools"


@pytest.fixture(scope="session")
def promtool(tools: Path) -> Path:
    return tools / "promtool"
