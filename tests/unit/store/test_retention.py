from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from assayd.ports.artifacts import Bundle
from assayd.store.artifacts import FileArtifactStore
from assayd.store.jobs import DatabaseJobStore
from assayd.store.retention import AT_ONCE, Retention

Make = Any  # the fixture's class; test folders are not a package


class StoppedClock:
    """A clock that stands."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture
async def artifacts(tmp_path: Path) -> FileArtifactStore:
    store = FileArtifactStore(tmp_path / "artifacts")
    await store.sweep()
    return store


@pytest.fixture
def retention(jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make) -> Retention:
    """Keep for a day; what was accepted with the number 1000 is younger than that, by a second."""
    now = make.attempt(999).created_at + timedelta(days=1)
    return Retention(jobs, artifacts, StoppedClock(now), days=1)


async def write(artifacts: FileArtifactStore, make: Make, number: int, run_number: int = 1) -> str:
    attempt = make.attempt(number)
    bundle = Bundle(
        attempt_id=attempt.id,
        run_number=run_number,
        created_at=attempt.created_at,
        category="code",
        platform="default",
        files={"a.log": b"x"},
    )
    return (await artifacts.write(bundle)).location


def bundles(tmp_path: Path) -> int:
    return len(list((tmp_path / "artifacts" / "code" / "default").iterdir()))


async def finish(jobs: DatabaseJobStore, make: Make, number: int, bundle: str | None) -> str:
    attempt = make.attempt(number)
    await jobs.accept(attempt, b"{}")
    await jobs.finish(make.finished(number, bundle=bundle))
    return str(attempt.id)


async def test_old_attempts_go_with_their_bundles_and_young_ones_stay(
    retention: Retention, jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make, tmp_path: Path
) -> None:
    old = await finish(jobs, make, 1, await write(artifacts, make, 1))
    young = await finish(jobs, make, 1000, await write(artifacts, make, 1000))
    assert await retention.sweep() == 1
    assert await jobs.get(old) is None
    assert await jobs.get(young) is not None
    assert bundles(tmp_path) == 1


async def test_the_bundle_of_a_lost_first_run_goes_too(
    retention: Retention, jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make, tmp_path: Path
) -> None:
    await write(artifacts, make, 1)
    await finish(jobs, make, 1, await write(artifacts, make, 1, run_number=2))
    assert await retention.sweep() == 1
    assert bundles(tmp_path) == 0


async def test_an_old_attempt_without_a_verdict_stays(
    retention: Retention, jobs: DatabaseJobStore, make: Make
) -> None:
    await jobs.accept(make.attempt(1), b"{}")
    assert await retention.sweep() == 0
    assert await jobs.get(make.attempt(1).id) is not None


async def test_a_bundle_that_is_gone_already_is_fine(
    retention: Retention, jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make
) -> None:
    location = await write(artifacts, make, 1)
    await finish(jobs, make, 1, location)
    await artifacts.remove(location)
    assert await retention.sweep() == 1


async def test_more_than_one_transaction_are_removed(
    retention: Retention, jobs: DatabaseJobStore, make: Make
) -> None:
    for number in range(1, AT_ONCE + 3):
        await finish(jobs, make, number, None)
    assert await retention.sweep() == AT_ONCE + 2
