"""Fixtures that create daemons, and a hook that adds their logs to a failed test's report."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

import pytest

from support.daemons.chosen import new_daemon
from support.daemons.daemon_process import DaemonProcess, running

needs_root = pytest.mark.system if os.geteuid() else pytest.mark.engine
"""For others than root these tests are among those of `make test-system`."""

MakeDaemon = Callable[..., DaemonProcess]


@pytest.fixture
def make_daemon(one_engine: str) -> Iterator[MakeDaemon]:
    """Return what makes daemons on one engine (or another that is named), and ends them after the test.

    They keep no containers ready unless told to, and one analysis worker: more of either takes longer than
    most tests.
    """
    made: list[DaemonProcess] = []

    def make(
        engine: str | None = None, *, settings: Mapping[str, str] | None = None, state: Path | None = None
    ) -> DaemonProcess:
        chosen = {"POOL__DEFAULT_TARGET": "0", "ANALYSIS__WORKERS": "1", **(settings or {})}
        made.append(new_daemon(engine or one_engine, settings=chosen, state=state))
        return made[-1]

    yield make
    for daemon in made:
        daemon.dispose()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add every daemon's last log lines to the report of a failed test."""
    report = yield
    if report.failed:
        report.sections += [(f"log of the daemon in {each.home}", each.log.tail()) for each in running]
    return report
