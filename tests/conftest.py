"""What all tests share: the engine that they may use."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

# Where no daemon sets up the log, it would be written among what a program prints.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

# In the background of a shell interrupts are ignored, and so they would be by programs that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Its helper container would need a network, a registry and the engine's socket.
os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"


# The same examples every time, and no judgement on how fast they are made: the machine may be busy.
settings.register_profile(
    "assayd", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("assayd")


@pytest.fixture(scope="session")
def docker_host() -> str:
    """Give the address of the engine that answers; a test that needs one fails without it."""
    script = ROOT / "deploy/dev/engine.sh"
    asked = subprocess.run([script, "socket"], capture_output=True, text=True, check=False, timeout=60)
    if asked.returncode != 0:
        pytest.fail(f"no container engine answers; start one with '{script} start'", pytrace=False)
    os.environ["DOCKER_HOST"] = asked.stdout.strip()
    return os.environ["DOCKER_HOST"]
