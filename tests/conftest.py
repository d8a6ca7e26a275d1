"""Fixtures and hooks of all tests, such as the container engine."""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from support.stores.postgres import database_url, postgres

__all__ = ["database_url", "postgres"]

ROOT = Path(__file__).resolve().parents[1]
ON_ENGINE = re.compile(r"[\[-](docker|oci-templates|oci)(?=[\]-])")
"""The engine in the name of a test."""
IN_ONE_PROCESS = {"tests/integration/imaging/test_adopted_image.py"}
"""Files whose tests on either engine give images the same names."""
LONGEST = ("tests/e2e/", "tests/escape/", "tests/integration/", "tests/contract/")
"""What starts first."""

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start what takes longest, so that several processes end at about the same time."""
    tests = Counter(item.path for item in items)

    def order(item: pytest.Item) -> tuple[int, int]:
        place = next((n for n, start in enumerate(LONGEST) if start in item.nodeid), len(LONGEST))
        # In tests/e2e the order of files stays: they share a daemon, and some look at what it has.
        return place, -tests[item.path] if place == len(LONGEST) else 0

    items.sort(key=order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """With `--dist loadscope`, have one process run all tests that share fixtures."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFixtures(LoadScopeScheduling):
        """Marks `xdist_group` of pytest-xdist 3.8 have no effect with pytest 9.2."""

        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return ByFixtures(config, log)


def group_of(nodeid: str) -> str:
    """Return the file and engine of a test; in tests/e2e the engine alone, whose daemon all files share."""
    file, _, name = nodeid.partition("::")
    engine = ON_ENGINE.search(name)
    if engine is None or file in IN_ONE_PROCESS:
        return file
    return f"{'tests/e2e' if file.startswith('tests/e2e/') else file} on {engine[1]}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the collected tests from garbage collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def one_engine(request: pytest.FixtureRequest) -> str:
    """Return an engine for what is the same on each: the cheaper `oci` as root, else Docker's address."""
    return "oci" if os.geteuid() == 0 else str(request.getfixturevalue("docker_host"))


@pytest.fixture(scope="session")
def docker_host() -> str:
    """Return the address of the running engine; fail the test if there is none."""
    script = ROOT / "deploy/dev/engine.sh"
    asked = subprocess.run([script, "socket"], capture_output=True, text=True, check=False, timeout=60)
    if asked.returncode != 0:
        pytest.fail(f"no container engine answers; start one with '{script} start'", pytrace=False)
    os.environ["DOCKER_HOST"] = asked.stdout.strip()
    return os.environ["DOCKER_HOST"]
