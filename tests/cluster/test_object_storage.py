"""Bundles in object storage over a real network, on two independent servers."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import obstore
import pytest
from obstore.store import MemoryStore

from assayd.errors import StoreError
from assayd.model.attempt import Bundle
from assayd.store.artifacts import MANIFEST, MIN_SWEEP_AGE_S
from assayd_cluster.bundles.objects import ObjectArtifactStore
from assayd_cluster.bundles.verified import VerifiedArtifactStore
from support.stores.object_storage import ObjectStorage, moto, object_storage, s3rver

__all__ = ["moto", "object_storage", "s3rver"]
pytestmark = pytest.mark.cluster

MANY_FILES = {f"{number:02}.log": f"{number}".encode() * 50_000 for number in range(60)}
BUNDLE = Bundle(
    attempt_id="01" + "0" * 23 + "1",
    run_number=1,
    created_at=datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC),
    category="weather",
    platform="sea",
    files={"report.json": b'{"a": 1}', "stdout.log": b""},
    truncated=frozenset(),
    manifest={"kind": "code"},
)
LARGE = replace(BUNDLE, files=MANY_FILES)
MIB = 2**20
ONE_LINE = re.compile(r"[^\n]{1,700}")


async def is_whole(bundles: VerifiedArtifactStore, location: str) -> bool:
    """Return whether a bundle can be read completely; reading verifies the contents."""
    found = [(await bundles.read(location, name)) == content for name, content in LARGE.files.items()]
    return all(found)


async def begun(storage: ObjectStorage, writing: asyncio.Task[object]) -> None:
    """Wait until part of the data is written, but not all."""
    bundles = storage.open()
    while not [each async for each in bundles.iter_locations()]:
        assert not writing.done(), "it was written before it could be disturbed"
        await asyncio.sleep(0)


async def test_write_that_the_server_does_not_outlive_fails_and_leaves_nothing_that_counts(
    object_storage: ObjectStorage,
) -> None:
    location = (await ObjectArtifactStore(MemoryStore()).write(LARGE)).location
    writing = asyncio.create_task(object_storage.open().write(LARGE))
    await begun(object_storage, writing)
    object_storage.kill()
    with pytest.raises(StoreError, match="see that the object storage is there") as caught:
        await writing
    assert (caught.value.code, caught.value.retryable) == ("store.unreachable", True)
    assert ONE_LINE.fullmatch(caught.value.message)
    object_storage.start()
    bundles = object_storage.open()
    with pytest.raises(StoreError, match="doesn't exist"):
        await bundles.read(location, "00.log")
    assert (await bundles.write(LARGE)).location == location
    assert await is_whole(object_storage.open(), location)
    assert [whole async for _, _, whole in bundles.iter_locations()] == [True]


async def test_write_goes_on_when_the_server_is_back(s3rver: ObjectStorage) -> None:
    s3rver.start()
    s3rver.empty()
    writing = asyncio.create_task(s3rver.open().write(LARGE))
    await begun(s3rver, writing)
    s3rver.kill()
    await asyncio.to_thread(s3rver.start)
    written = await writing
    assert await is_whole(s3rver.open(), written.location)


def unlike(storage: ObjectStorage, tmp_path: Path, setting: str) -> VerifiedArtifactStore:
    wrong = tmp_path / "wrong"
    wrong.write_text("nonsense\n")
    wrong.chmod(0o600)
    return storage.open(**{setting: wrong})


async def refusals(bundles: VerifiedArtifactStore, location: str) -> list[StoreError]:
    caught = []
    for work in (bundles.write(BUNDLE), bundles.read(location, "report.json"), bundles.remove(location)):
        with pytest.raises(StoreError) as refused:
            await work
        caught.append(refused.value)
    with pytest.raises(StoreError) as refused:
        await bundles.sweep()
    return [*caught, refused.value]


async def test_unknown_key_is_an_error_that_says_so(object_storage: ObjectStorage, tmp_path: Path) -> None:
    written = await object_storage.open().write(BUNDLE)
    for error in await refusals(unlike(object_storage, tmp_path, "access_key_file"), written.location):
        assert (error.code, error.retryable) == ("store.unwritable", False)
        assert "(InvalidAccessKeyId); check that the keys are correct" in error.message
        assert ONE_LINE.fullmatch(error.message)
    assert await object_storage.open().read(written.location, "report.json") == b'{"a": 1}'


async def test_wrong_secret_is_an_error_that_says_so(moto: ObjectStorage, tmp_path: Path) -> None:
    moto.start()
    written = await moto.open().write(BUNDLE)
    for error in await refusals(unlike(moto, tmp_path, "secret_key_file"), written.location):
        assert error.code == "store.unwritable"
        assert "(SignatureDoesNotMatch); check that the keys are correct" in error.message


async def test_bucket_that_is_not_there_is_no_missing_bundle(object_storage: ObjectStorage) -> None:
    written = await object_storage.open().write(BUNDLE)
    for error in await refusals(object_storage.open(bucket="other"), written.location):
        assert error.code == "store.unreachable"
        assert (
            "(NoSuchBucket); check that the object storage answers and that the bucket exists"
            in error.message
        )


async def test_region_of_the_settings_is_what_requests_are_signed_for(object_storage: ObjectStorage) -> None:
    elsewhere = object_storage.open(region="eu-central-1")
    written = await elsewhere.write(BUNDLE)
    assert await object_storage.open().read(written.location, "report.json") == b'{"a": 1}'


async def test_changed_object_is_an_error_and_its_neighbour_is_read(object_storage: ObjectStorage) -> None:
    written = await object_storage.open().write(LARGE)
    changed = hashlib.sha256(LARGE.files["07.log"]).hexdigest()
    obstore.put(object_storage.bucket(), f"{written.location}/{changed}", b"forged")
    bundles = object_storage.open()
    with pytest.raises(StoreError, match=r"07\.log is not what was written") as caught:
        await bundles.read(written.location, "07.log")
    assert caught.value.code == "artifact.damaged"
    assert await bundles.read(written.location, "08.log") == LARGE.files["08.log"]


async def test_gateways_that_write_the_same_bundle_at_once_write_one(object_storage: ObjectStorage) -> None:
    gateways = [object_storage.open() for _ in range(3)]
    first, *others = await asyncio.gather(*(gateway.write(LARGE) for gateway in gateways))
    assert all(other == first for other in others)
    assert [(each, whole) async for each, _, whole in gateways[0].iter_locations()] == [
        (first.location, True)
    ]
    assert await is_whole(object_storage.open(), first.location)


async def test_sweep_over_pages_removes_what_is_unfinished_and_nothing_else(
    object_storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = object_storage.bucket()
    unfinished = [f"weather/air/20260301T120000.{n:06}Z_{n:026}-{n:032x}" for n in range(11)]
    names = [f"{location}/{n:064x}" for location in unfinished for n in range(96)]
    turns = asyncio.Semaphore(16)

    async def put(name: str) -> None:
        async with turns:
            await obstore.put_async(bucket, name, b"x")

    await asyncio.gather(*(put(name) for name in names))
    bundles = object_storage.open()
    written = [await bundles.write(replace(BUNDLE, platform=platform)) for platform in ("aaa", "zzz")]
    listed = Counter([location async for location, _, _ in bundles.iter_locations()])
    assert listed == Counter([*unfinished, *(each.location for each in written)])
    assert await bundles.sweep() == 0
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + MIN_SWEEP_AGE_S + 60)
    assert await bundles.sweep() == len(unfinished)
    left = [name for page in obstore.list(bucket) for name in page]
    assert {each["path"].rpartition("/")[0] for each in left} == {each.location for each in written}
    assert await bundles.read(written[1].location, MANIFEST)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def chunks(seed: bytes, size: int) -> Iterator[bytes]:
    for number in range(size // MIB):
        yield hashlib.shake_128(seed + number.to_bytes(4)).digest(MIB)


async def test_large_file_is_read_in_little_memory_by_a_slow_reader(object_storage: ObjectStorage) -> None:
    written = await object_storage.open().write(
        replace(BUNDLE, files={"large": b"".join(chunks(b"large", 96 * MIB))})
    )
    bundles = object_storage.open()
    before, most, digest, count = resident_bytes(), 0, hashlib.sha256(), 0
    async for piece in bundles.read_chunks(written.location, "large"):
        digest.update(piece)
        count += len(piece)
        most = max(most, resident_bytes() - before)
        await asyncio.sleep(0.002)
    assert count == 96 * MIB
    [large] = [each for each in written.artifacts if each.name == "large"]
    assert digest.hexdigest() == large.sha256
    assert most < 32 * MIB
