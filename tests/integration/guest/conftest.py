"""A runner for each test, in its own directory."""

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
    """Return a runner that hasn't been greeted."""
    with guest_runner(work) as started:
        yield started


@pytest.fixture
def begun(runner: GuestRunner) -> GuestRunner:
    """Return a runner that waits for units."""
    runner.begin()
    return runner


@pytest.fixture
def observing(runner: GuestRunner) -> GuestRunner:
    """Return a runner that waits for units, with a runtime policy that refuses nothing."""
    runner.begin(mode="observe", allow_exec=True)
    return runner
