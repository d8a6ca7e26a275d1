from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from assayd.attempts.retention import AT_ONCE, Retention, RetentionLimits, UploadTracker
from assayd.model.attempt import Artifact, Bundle
from assayd.model.batch import Batch
from assayd.model.records import SweepResult
from assayd.model.submission import Peer
from assayd.store.artifacts import FileArtifactStore
from assayd.store.attempt_queries import ROW_BYTES
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore
from assayd.store.library import DatabaseLibrary

Make = Any  # the fixture's class; test folders are not a package


class StoppedClock:
    """A clock that doesn't advance."""

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


START = datetime(2026, 1, 1, tzinfo=UTC)
KEEP = RetentionLimits(days=1, attempts=10**6, disk_bytes=10**12)


def keeping(
    jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make, keep: RetentionLimits
) -> Retention:
    """Return a retention for which attempt number 1000 is one second too young to be removed."""
    now = make.attempt(999).created_at + timedelta(days=1)
    clock = StoppedClock(now)
    return Retention(jobs, DatabaseBatchStore(jobs.access), artifacts, clock, keep, UploadTracker(clock))


@pytest.fixture
def retention(jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make) -> Retention:
    """Return a retention that keeps attempts for a day."""
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


async def test_removed_bundles_are_counted_and_those_of_a_dry_run_are_not(
    jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make
) -> None:
    counted: list[int] = []
    clock = StoppedClock(make.attempt(999).created_at + timedelta(days=1))
    batches, uploads = DatabaseBatchStore(jobs.access), UploadTracker(clock)
    retention = Retention(jobs, batches, artifacts, clock, KEEP, uploads, removed=counted.append)
    await finish(jobs, make, 1, await write(artifacts, make, 1))
    await finish(jobs, make, 2, None)
    await retention.sweep(dry_run=True)
    assert counted == []
    await retention.sweep()
    assert sum(counted) == 1


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
    assert await retention.sweep() == SweepResult()
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
    assert await retention.sweep() == SweepResult()


async def test_the_oldest_go_when_there_are_too_many(
    jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make
) -> None:
    ids = [await finish(jobs, make, number, None) for number in range(2000, 2000 + AT_ONCE + 5)]
    retention = keeping(jobs, artifacts, make, RetentionLimits(days=1, attempts=3, disk_bytes=10**12))
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
    retention = keeping(
        jobs, artifacts, make, RetentionLimits(days=1, attempts=10**6, disk_bytes=3 * 4096 * 2)
    )
    expected = SweepResult(attempts=2, disk_bytes=2 * 3 * 4096)
    assert await retention.sweep(dry_run=True) == expected == await retention.sweep()
    assert await jobs.get(make.attempt(2002).id) is None
    assert await jobs.get(make.attempt(2003).id) is not None


async def test_what_is_too_old_counts_before_what_is_too_much(
    jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make
) -> None:
    for number in (1, 2, 2001, 2002):
        await finish(jobs, make, number, None)
    retention = keeping(jobs, artifacts, make, RetentionLimits(days=1, attempts=2, disk_bytes=10**12))
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


class SmallDisk(FileArtifactStore):
    """A store on a disk with as little space as the test sets."""

    def __init__(self, root: Path, free: int) -> None:
        super().__init__(root)
        self.free = free

    async def free_bytes(self) -> int:
        return self.free

    async def free_bytes_left(self) -> int:
        return 10**12


LARGE = Artifact(name="a", bytes=40_000, sha256="e" * 64, media_type="text/plain")
SIZE = 40_960
GREEDY, MODEST = Peer(uid=2000, gid=2000, pid=1), Peer(uid=1000, gid=1000, pid=1)
OPEN = Batch(id="01B", name="b", peer=GREEDY, created_at=START, concurrency=1)


async def large(
    jobs: DatabaseJobStore,
    artifacts: FileArtifactStore,
    make: Make,
    number: int,
    peer: Peer,
    **values: object,
) -> str:
    """Record a finished attempt with a bundle that claims to be large."""
    location = await write(artifacts, make, number)
    await jobs.accept(make.attempt(number, peer=peer, **values), b"{}")
    await jobs.finish(make.finished(number, peer=peer, bundle=location, artifacts=(LARGE,), **values))
    return str(make.attempt(number).id)


async def bundled(jobs: DatabaseJobStore, ids: list[str]) -> list[bool]:
    attempts = [await jobs.get(each) for each in ids]
    return [attempt is not None and attempt.bundle is not None for attempt in attempts]


async def test_who_holds_the_most_loses_the_oldest_and_others_nothing(
    jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make
) -> None:
    old = [await large(jobs, artifacts, make, number, MODEST) for number in (2001, 2002)]
    new = [await large(jobs, artifacts, make, number, GREEDY) for number in range(2003, 2011)]
    retention = keeping(jobs, artifacts, make, RetentionLimits(days=1, attempts=10**6, disk_bytes=6 * SIZE))
    assert await retention.sweep(dry_run=True) == SweepResult(bundles=4, disk_bytes=4 * SIZE)
    assert await retention.sweep() == SweepResult(bundles=4, disk_bytes=4 * SIZE)
    assert await bundled(jobs, old) == [True, True]
    assert all([await jobs.get(each) is not None for each in new])
    assert await bundled(jobs, new) == [False] * 4 + [True] * 4


async def test_who_has_the_most_attempts_loses_the_oldest_and_others_nothing(
    jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make
) -> None:
    old = [await large(jobs, artifacts, make, 2001, MODEST)]
    new = [await large(jobs, artifacts, make, number, GREEDY) for number in range(2002, 2007)]
    retention = keeping(jobs, artifacts, make, RetentionLimits(days=1, attempts=3, disk_bytes=10**12))
    assert (await retention.sweep()).attempts == 3
    assert await bundled(jobs, old + new) == [True] + [False] * 3 + [True] * 2


async def test_bundles_of_an_upload_that_broke_off_go_and_the_verdicts_stay(
    jobs: DatabaseJobStore, artifacts: FileArtifactStore, make: Make
) -> None:
    """Regression: attempts of an open batch were exempt, so an open batch kept all space."""
    await DatabaseBatchStore(jobs.access).open(OPEN, max_unfinished=10)
    old = [await large(jobs, artifacts, make, number, MODEST) for number in (2001, 2002)]
    new = [await large(jobs, artifacts, make, n, GREEDY, batch_id=OPEN.id) for n in range(2003, 2011)]
    retention = keeping(jobs, artifacts, make, RetentionLimits(days=1, attempts=10**6, disk_bytes=6 * SIZE))
    for dry_run in (True, False):
        assert await retention.sweep(dry_run=dry_run) == SweepResult(bundles=4, disk_bytes=4 * SIZE)
    assert await bundled(jobs, old + new) == [True, True] + [False] * 4 + [True] * 4
    assert all([(await jobs.get(each)) is not None for each in new])
    assert await retention.sweep() == SweepResult()


async def test_room_that_gets_short_is_taken_from_who_holds_the_most(
    jobs: DatabaseJobStore, tmp_path: Path, make: Make
) -> None:
    disk = SmallDisk(tmp_path / "artifacts", free=3 * SIZE)
    await disk.sweep()
    old = [await large(jobs, disk, make, number, MODEST) for number in (2001, 2002)]
    new = [await large(jobs, disk, make, number, GREEDY) for number in range(2003, 2011)]
    keep = RetentionLimits(days=1, attempts=10**6, disk_bytes=10**12, min_free_bytes=2 * SIZE)
    assert await keeping(jobs, disk, make, keep).sweep() == SweepResult(bundles=1, disk_bytes=SIZE)
    assert await bundled(jobs, old + new) == [True, True, False] + [True] * 7


async def test_what_is_small_stays_however_full_the_disk(
    jobs: DatabaseJobStore, tmp_path: Path, make: Make
) -> None:
    """Something else may have filled the disk: users keep up to `min_free_mb`."""
    disk = SmallDisk(tmp_path / "artifacts", free=0)
    await disk.sweep()
    ids = [await large(jobs, disk, make, number, MODEST) for number in range(2001, 2005)]
    keep = RetentionLimits(
        days=1, attempts=10**6, disk_bytes=10**12, min_free_bytes=2 * SIZE + 4 * (ROW_BYTES + 2)
    )
    assert await keeping(jobs, disk, make, keep).sweep() == SweepResult(bundles=2, disk_bytes=2 * SIZE)
    assert await bundled(jobs, ids) == [False, False, True, True]


async def test_verdicts_of_a_batch_stay_when_its_bundles_make_room(
    jobs: DatabaseJobStore, tmp_path: Path, make: Make
) -> None:
    """Regression: a batch that had finished half a second before was removed with all of its verdicts."""
    disk, batches = SmallDisk(tmp_path / "artifacts", free=0), DatabaseBatchStore(jobs.access)
    await disk.sweep()
    await batches.open(OPEN, max_unfinished=10)
    ids = [await large(jobs, disk, make, number, GREEDY, batch_id=OPEN.id) for number in range(2001, 2006)]
    await batches.cancel(OPEN.id, START)
    keep = RetentionLimits(days=1, attempts=10**6, disk_bytes=10**12, min_free_bytes=6 * ROW_BYTES)
    for dry_run in (True, False):
        swept = await keeping(jobs, disk, make, keep).sweep(dry_run=dry_run)
        assert swept == SweepResult(bundles=2, disk_bytes=2 * SIZE)
    attempts = [await jobs.get(each) for each in ids]
    assert all(attempt is not None and attempt.verdict is not None for attempt in attempts)
    assert await batches.find(GREEDY.uid, OPEN.name) is not None


async def test_rows_go_only_after_all_bundles_and_only_as_many_as_take_too_much(
    jobs: DatabaseJobStore, tmp_path: Path, make: Make
) -> None:
    """Submissions in the database take space too; otherwise, verdicts without bundles could fill the disk."""
    disk = SmallDisk(tmp_path / "artifacts", free=0)
    await disk.sweep()
    ids = []
    for number in range(2001, 2006):
        location = await write(disk, make, number)
        await jobs.accept(make.attempt(number, peer=GREEDY), str(number).encode() * 10_000)
        await jobs.finish(make.finished(number, peer=GREEDY, bundle=location, artifacts=(LARGE,)))
        ids.append(make.attempt(number).id)
    keep = RetentionLimits(days=1, attempts=10**6, disk_bytes=10**12, min_free_bytes=3 * (40_000 + ROW_BYTES))
    expected = SweepResult(attempts=2, bundles=5, disk_bytes=5 * SIZE)
    for dry_run in (True, False):
        assert await keeping(jobs, disk, make, keep).sweep(dry_run=dry_run) == expected
    assert [await jobs.get(each) is not None for each in ids] == [False, False, True, True, True]


async def test_bundles_of_approved_attempts_go_after_all_others_and_the_entries_stay(
    jobs: DatabaseJobStore, tmp_path: Path, make: Make
) -> None:
    """Regression: approved attempts filled the disk: neither retention nor users could remove them."""
    disk = SmallDisk(tmp_path / "artifacts", free=0)
    await disk.sweep()
    ids = [await large(jobs, disk, make, number, GREEDY) for number in range(2001, 2006)]
    library = DatabaseLibrary(jobs.access, StoppedClock(START), most_bytes=10**12, room=disk.free_bytes_left)
    for number in (2001, 2002, 2003):
        await library.approve(make.finished(number, peer=GREEDY, artifacts=(LARGE,)), "name", GREEDY.uid)
    keep = RetentionLimits(
        days=1, attempts=10**6, disk_bytes=10**12, min_free_bytes=2 * SIZE + 5 * (ROW_BYTES + 2)
    )
    await keeping(jobs, disk, make, keep).sweep()
    assert await bundled(jobs, ids) == [False, True, True, False, False]
    assert all([await jobs.get(each) is not None for each in ids[:3]])
    assert [one.bundle is None for one in await library.list_versions(GREEDY.uid, "name")] == [
        False,
        False,
        True,
    ]
