"""A runner for each test, in a directory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.guests.guest_runner import GuestRunner, guest_runner


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return the work directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def runner(work: Path) -> Iterator[GuestRunner]:
    """Return a runner that has said nothing yet."""
    with guest_runner(work) as started:
        yield started


@pytest.fixture
def begun(runner: GuestRunner) -> GuestRunner:
    """Return a runner that waits for units."""
    runner.begin()
    return runner


@pytest.fixture
def observing(runner: GuestRunner) -> GuestRunner:
    """Return a runner that waits for units, in which the runtime policy refuses nothing."""
    runner.begin(mode="observe", allow_exec=True)
    return runner
