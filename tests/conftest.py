"""Fixtures and hooks of all tests, such as the container engine."""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from support.stores.postgres import database_url, postgres

__all__ = ["database_url", "postgres"]

ROOT = Path(__file__).resolve().parents[1]
ENGINES = ("docker", "oci", "oci-templates")

# Where no daemon sets up the log, it would be written among what a program prints. Rich tracebacks are slow.
structlog.configure(
    wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    processors=[structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)],
)

# In the background of a shell interrupts are ignored, and so they would be by programs that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Its helper container would need a network, a registry and the engine's socket.
os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"


# The same examples every time, and no judgement on how fast they are made: the machine may be busy.
# More of them, made anew each time: pytest --hypothesis-profile=long tests/unit
settings.register_profile(
    "assayd",
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)
settings.register_profile("long", settings.get_profile("assayd"), max_examples=2000, derandomize=False)
settings.load_profile("assayd")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that share an engine's daemon or a file's fixtures into one process."""
    for item in items:
        in_group = item.get_closest_marker("xdist_group") is not None
        if not in_group and ROOT / "tests/unit" not in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    below = item.path.relative_to(ROOT / "tests")
    if item.get_closest_marker("engine") is None:
        return str(below)
    parameters = getattr(item, "callspec", None)
    found = parameters.params.values() if parameters is not None else ()
    engine = next((each for each in found if each in ENGINES), ENGINES[0])
    return f"{below.parts[0]} on {engine}"


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def docker_host() -> str:
    """Return the address of the running engine; fail the test if there is none."""
    script = ROOT / "deploy/dev/engine.sh"
    asked = subprocess.run([script, "socket"], capture_output=True, text=True, check=False, timeout=60)
    if asked.returncode != 0:
        pytest.fail(f"no container engine answers; start one with '{script} start'", pytrace=False)
    os.environ["DOCKER_HOST"] = asked.stdout.strip()
    return os.environ["DOCKER_HOST"]
