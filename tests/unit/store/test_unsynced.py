"""Bundles whose contents are kept in the database until they are on disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, func, select

from assayd.model.attempt import Attempt, Bundle
from assayd.store.artifacts import FileArtifactStore
from assayd.store.jobs import DatabaseJobStore, open_job_store
from assayd.store.unsynced import MAX_BYTES, UNSYNCED, UnsyncedBundles, deserialize_files, serialize_files

Make = Any  # the fixture's class; test folders are not a package
Spoil = Callable[[Path], None]
FILES = {"stdout.log": b"said\n", "files/out.csv": b"a,b\n" * 100, "empty": b""}


def bundle(attempt: Attempt, files: dict[str, bytes] = FILES) -> Bundle:
    """Return the bundle of an attempt."""
    return Bundle(
        attempt_id=attempt.id,
        run_number=1,
        created_at=attempt.created_at,
        category="extractor",
        platform="default",
        files=files,
        truncated=frozenset(),
        manifest={},
    )


async def ended(store: DatabaseJobStore, bundles: FileArtifactStore, make: Make, **of: Any) -> Attempt:
    """Take an attempt from its acceptance to its verdict, like the daemon."""
    attempt = make.finished()
    await store.accept(make.attempt(), b"{}")
    await store.lease(make.run())
    written = await bundles.write(bundle(attempt, **of))
    attempt = replace(attempt, bundle=written.location, artifacts=written.artifacts)
    assert await store.finish(attempt)
    return attempt


async def held(store: DatabaseJobStore) -> int:
    """Count the bundles whose contents are in the database."""
    count = select(func.count()).select_from(UNSYNCED)
    return int(await store.access.read(lambda connection: connection.execute(count).scalar() or 0))


def unsynced_of(store: DatabaseJobStore) -> UnsyncedBundles:
    """Return the store's unsynced bundles."""
    assert store.unsynced is not None
    return store.unsynced


@pytest.fixture
def bundles(jobs: DatabaseJobStore, tmp_path: Path) -> FileArtifactStore:
    root = tmp_path / "bundles"
    root.mkdir()
    jobs.unsynced = UnsyncedBundles(jobs.access, root)
    return FileArtifactStore(root, jobs.unsynced)


@pytest.fixture
def flushed(jobs: DatabaseJobStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return every wait for the disk, in order: flushing commits, and files."""
    waits: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        waits.append("file")
        real(descriptor)

    def committed(connection: Connection) -> None:
        raw = connection.connection.dbapi_connection
        assert raw is not None
        if raw.execute("PRAGMA synchronous").fetchone()[0] == 2:  # type: ignore[attr-defined]
            waits.append("commit")

    monkeypatch.setattr(os, "fsync", fsync)
    writing: Engine = jobs.access._database.writing
    event.listen(writing, "commit", committed)
    return waits


@pytest.mark.parametrize("database_url", [None])
async def test_an_attempt_waits_for_the_disk_twice(
    jobs: DatabaseJobStore, bundles: FileArtifactStore, make: Make, flushed: list[str]
) -> None:
    await bundles.write(bundle(make.attempt(9)))  # makes the folders of its category, once
    flushed.clear()

    await ended(jobs, bundles, make)

    assert flushed == ["commit", "commit"]


async def test_a_large_bundle_is_flushed_by_itself(
    jobs: DatabaseJobStore, bundles: FileArtifactStore, make: Make
) -> None:
    await ended(jobs, bundles, make, files={"large": bytes(MAX_BYTES + 1)})

    assert await held(jobs) == 0


def lose_all(folder: Path) -> None:
    """Delete a folder, as if its name had never reached the disk."""
    shutil.rmtree(folder)


def lose_contents(folder: Path) -> None:
    """Empty the files, like a file system that writes names before contents."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(b"")


def lose_a_file(folder: Path) -> None:
    """Delete one file."""
    folder.chmod(0o700)
    (folder / "stdout.log").unlink()


def lose_nothing(folder: Path) -> None:
    """Delete nothing."""


@pytest.mark.parametrize(
    ("lose", "again"), [(lose_all, 1), (lose_contents, 1), (lose_a_file, 1), (lose_nothing, 0)]
)
async def test_a_bundle_with_a_verdict_is_whole_after_a_loss_of_power(
    jobs: DatabaseJobStore, bundles: FileArtifactStore, make: Make, lose: Spoil, again: int
) -> None:
    attempt = await ended(jobs, bundles, make)
    folder = bundles.path(attempt.bundle or "")
    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    lose(folder)

    assert await unsynced_of(jobs).repair(bundles.repair) == again

    assert {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert await held(jobs) == 0


async def test_a_bundle_that_was_removed_since_stays_removed(
    jobs: DatabaseJobStore, bundles: FileArtifactStore, make: Make
) -> None:
    attempt = await ended(jobs, bundles, make)
    await bundles.remove(attempt.bundle or "")
    await jobs.strip([attempt.id])

    assert await unsynced_of(jobs).repair(bundles.repair) == 0
    assert not bundles.path(attempt.bundle or "").exists()


async def test_contents_go_when_the_file_system_was_flushed(
    jobs: DatabaseJobStore, bundles: FileArtifactStore, make: Make
) -> None:
    await ended(jobs, bundles, make)
    assert await held(jobs) == 1

    await unsynced_of(jobs).flush_bundles()

    assert await held(jobs) == 0


async def test_contents_outlive_the_daemon(tmp_path: Path, make: Make) -> None:
    async with open_job_store(tmp_path) as store:
        bundles = FileArtifactStore(tmp_path / "artifacts", store.unsynced)
        attempt = await ended(store, bundles, make)
    lose_all(bundles.path(attempt.bundle or ""))

    async with open_job_store(tmp_path) as store:
        bundles = FileArtifactStore(tmp_path / "artifacts", store.unsynced)
        assert await unsynced_of(store).repair(bundles.repair) == 1
    assert (bundles.path(attempt.bundle or "") / "stdout.log").read_bytes() == FILES["stdout.log"]


def test_packed_files_come_back_as_they_were() -> None:
    assert deserialize_files(serialize_files(FILES)) == FILES
    assert deserialize_files(b"") == {}
