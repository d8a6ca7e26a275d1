from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from assayd.attempts.retention import AT_ONCE, Keep, Retention
from assayd.model.attempt import Artifact
from assayd.ports.artifacts import Bundle
from assayd.ports.service import Swept
from assayd.store.artifacts import FileArtifactStore
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore

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


KEEP = Keep(days=1, attempts=10**6, disk_bytes=10**12)


def keeping(jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make, keep: Keep) -> Retention:
    """Return a retention at whose time what has the number 1000 is a second too young to go by its age."""
    now = make.attempt(999).created_at + timedelta(days=1)
    return Retention(jobs, DatabaseBatchStore(jobs.access), artifacts, StoppedClock(now), keep)


@pytest.fixture
def retention(jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make) -> Retention:
    """Keep for a day."""
    return keeping(jobs, artifacts, make, KEEP)


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
    assert (await retention.sweep()).attempts == 1
    assert await jobs.get(old) is None
    assert await jobs.get(young) is not None
    assert bundles(tmp_path) == 1


async def test_the_bundle_of_a_lost_first_run_goes_too(
    retention: Retention, jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make, tmp_path: Path
) -> None:
    await write(artifacts, make, 1)
    await finish(jobs, make, 1, await write(artifacts, make, 1, run_number=2))
    assert (await retention.sweep()).attempts == 1
    assert bundles(tmp_path) == 0


async def test_an_old_attempt_without_a_verdict_stays(
    retention: Retention, jobs: DatabaseJobStore, make: Make
) -> None:
    await jobs.accept(make.attempt(1), b"{}")
    assert await retention.sweep() == Swept()
    assert await jobs.get(make.attempt(1).id) is not None


async def test_a_bundle_that_is_gone_already_is_fine(
    retention: Retention, jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make
) -> None:
    location = await write(artifacts, make, 1)
    await finish(jobs, make, 1, location)
    await artifacts.remove(location)
    assert (await retention.sweep()).attempts == 1


async def test_more_than_one_transaction_are_removed(
    retention: Retention, jobs: DatabaseJobStore, make: Make
) -> None:
    for number in range(1, AT_ONCE + 3):
        await finish(jobs, make, number, None)
    assert (await retention.sweep(dry_run=True)).attempts == AT_ONCE + 2
    assert (await retention.sweep()).attempts == AT_ONCE + 2
    assert await retention.sweep() == Swept()


async def test_the_oldest_go_when_there_are_too_many(
    jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make
) -> None:
    ids = [await finish(jobs, make, number, None) for number in range(2000, 2000 + AT_ONCE + 5)]
    retention = keeping(jobs, artifacts, make, Keep(days=1, attempts=3, disk_bytes=10**12))
    for dry_run in (True, False):
        assert (await retention.sweep(dry_run=dry_run)).attempts == AT_ONCE + 2
    assert [await jobs.get(each) is not None for each in ids] == [False] * (AT_ONCE + 2) + [True] * 3


async def test_the_oldest_go_when_their_bundles_take_too_much_room(
    jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make
) -> None:
    large = Artifact(name="a", bytes=10_000, sha256="e" * 64, media_type="text/plain")
    for number in range(2001, 2005):
        await jobs.accept(make.attempt(number), b"{}")
        await jobs.finish(make.finished(number, bundle=None, artifacts=(large,)))
    retention = keeping(jobs, artifacts, make, Keep(days=1, attempts=10**6, disk_bytes=3 * 4096 * 2))
    expected = Swept(attempts=2, disk_bytes=2 * 3 * 4096)
    assert await retention.sweep(dry_run=True) == expected == await retention.sweep()
    assert await jobs.get(make.attempt(2002).id) is None
    assert await jobs.get(make.attempt(2003).id) is not None


async def test_what_is_too_old_counts_before_what_is_too_much(
    jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make
) -> None:
    for number in (1, 2, 2001, 2002):
        await finish(jobs, make, number, None)
    retention = keeping(jobs, artifacts, make, Keep(days=1, attempts=2, disk_bytes=10**12))
    assert (await retention.sweep(dry_run=True)).attempts == 2 == (await retention.sweep()).attempts


async def test_a_bundle_beside_the_one_that_counts_goes(
    retention: Retention, jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make, tmp_path: Path
) -> None:
    for number, counts in ((2001, 0), (2002, 1)):
        locations = [await write(artifacts, make, number) for _ in range(2)]
        await finish(jobs, make, number, locations[counts])
    await write(artifacts, make, 2003)
    await write(artifacts, make, 2003)  # of an attempt without a verdict: neither is known to be the one
    assert (await retention.sweep(dry_run=True)).bundles == 2
    assert bundles(tmp_path) == 6
    assert (await retention.sweep()).bundles == 2
    assert bundles(tmp_path) == 4
    assert (await retention.sweep()).bundles == 0
