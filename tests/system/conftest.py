"""Fixtures of the system tests: tools that a checkout lacks, and builds that are cached in .run/cache."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.daemons.daemon_fixtures import make_daemon, pytest_runtest_makereport  # noqa: F401 - pytest finds them
from support.machines.machine import make_root
from support.machines.packages import build_deb, build_wheel, download_wheels

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".run/cache"


@pytest.fixture(scope="session")
def tools() -> Path:
    """Return the folder of tools after installing the missing ones."""
    subprocess.run([ROOT / "deploy/dev/tools.sh", CACHE / "tools"], check=True, timeout=1800)
    return CACHE / "tools"


@pytest.fixture(scope="session")
def docker_host(docker_host: str, tools: Path) -> str:
    """Return the engine with this checkout's images, because a daemon refuses older ones permanently."""
    command = [ROOT / ".venv/bin/assay", "images", "build", "--cache", CACHE / "images"]
    environ = {**os.environ, "DOCKER_HOST": docker_host, "ASSAYD_ENGINE__KIND": "docker"}
    subprocess.run(command, env=environ, check=True, capture_output=True, timeout=1800)
    return docker_host


@pytest.fixture(scope="session")
def promtool(tools: Path) -> Path:
    return tools / "promtool"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def deb(wheel: Path) -> Path:
    """Return the Debian package."""
    return build_deb(wheel, CACHE / "deb")


@pytest.fixture(scope="session")
def wheels() -> Path:
    """Return a folder with the packages that an installation needs."""
    return download_wheels(CACHE / "wheels")


@pytest.fixture(scope="session")
def system_root(tools: Path) -> Path:
    """Return the root folder of a Debian system that boots systemd."""
    return make_root(CACHE / "system")
