"""The behavior that all bundle stores share."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import obstore
import pytest
from obstore.store import MemoryStore, ObjectStore

from assayd.errors import StoreError
from assayd.model.attempt import Bundle, compute_disk_bytes
from assayd.ports.artifacts import ArtifactStore
from assayd.store.artifacts import MANIFEST, MIN_SWEEP_AGE_S, PIECE_BYTES, FileArtifactStore
from assayd_cluster.bundles.objects import ObjectArtifactStore
from assayd_cluster.bundles.packed import PackedArtifactStore
from assayd_cluster.bundles.verified import VerifiedArtifactStore, remove_unreferenced_bundles
from support.stores.object_storage import KINDS, ObjectStorage, moto, s3rver
from support.stores.stored_attempts import Make, jobs, make

__all__ = ["jobs", "make", "moto", "s3rver"]

BUNDLE = Bundle(
    attempt_id="01" + "0" * 23 + "1",
    run_number=1,
    created_at=datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC),
    category="weather",
    platform="sea",
    files={"report.json": b'{"a": 1}', "out/größe $#?%41 {1}.txt": "é".encode(), "stdout.log": b""},
    truncated=frozenset({"stdout.log"}),
    manifest={"kind": "code"},
)
SERVERS = [pytest.param(kind, marks=pytest.mark.cluster) for kind in KINDS]
SHARED = ["shared", "objects", *SERVERS]
EVERYWHERE = ["file", *SHARED]


@dataclass
class Place:
    """A store, a way to change its bytes directly, and a way to open it as another gateway."""

    store: ArtifactStore
    change: Callable[[str, str, bytes], None]
    open: Callable[[], ArtifactStore]


def in_folder(root: Path, open_store: Callable[[], ArtifactStore]) -> Place:
    def change(location: str, name: str, content: bytes) -> None:
        path = root / location / name
        path.chmod(0o600)
        path.write_bytes(content)

    return Place(open_store(), change, open_store)


def in_tar_files(root: Path, open_store: Callable[[], ArtifactStore]) -> Place:
    def change(location: str, name: str, content: bytes) -> None:
        path = root / f"{location}.tar"
        with tarfile.open(path) as tar:
            found = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
        found[name] = content
        path.chmod(0o600)
        with tarfile.open(path, "w") as tar:
            for each, value in found.items():
                header = tarfile.TarInfo(each)
                header.size = len(value)
                tar.addfile(header, io.BytesIO(value))

    return Place(open_store(), change, open_store)


def in_bucket(store: ObjectStore, open_store: Callable[[], ArtifactStore]) -> Place:
    def change(location: str, name: str, content: bytes) -> None:
        name = name if name == MANIFEST else hashlib.sha256(BUNDLE.files[name]).hexdigest()
        obstore.put(store, f"{location}/{name}", content)

    return Place(open_store(), change, open_store)


@pytest.fixture(params=EVERYWHERE)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    root = tmp_path / "bundles"
    root.mkdir()
    if request.param == "file":
        yield in_folder(root, lambda: FileArtifactStore(root))
    elif request.param == "shared":
        yield in_tar_files(root, lambda: VerifiedArtifactStore(PackedArtifactStore(root)))
    elif request.param == "objects":
        memory = MemoryStore()
        yield in_bucket(memory, lambda: VerifiedArtifactStore(ObjectArtifactStore(memory)))
    else:
        storage: ObjectStorage = request.getfixturevalue(request.param)
        storage.empty()
        yield in_bucket(storage.bucket(), storage.open)


async def joined(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


in_cluster = pytest.mark.parametrize("place", SHARED, indirect=True)


async def test_what_is_written_is_read_as_it_was(place: Place) -> None:
    written = await place.store.write(BUNDLE)
    assert {a.name for a in written.artifacts} == {*BUNDLE.files, MANIFEST}
    for artifact in written.artifacts:
        content = await place.open().read(written.location, artifact.name)
        assert (artifact.bytes, artifact.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        assert content == BUNDLE.files.get(artifact.name, content)
        assert await joined(place.store.read_chunks(written.location, artifact.name)) == content
    assert written.location.startswith("weather/sea/20260301T120000.123456Z_" + BUNDLE.attempt_id)
    assert compute_disk_bytes(written.artifacts) > 0


async def test_large_file_comes_in_pieces(place: Place) -> None:
    content = os.urandom(3 * PIECE_BYTES + 7)
    written = await place.store.write(replace(BUNDLE, files={"large": content}))
    pieces = [piece async for piece in place.store.read_chunks(written.location, "large")]
    assert b"".join(pieces) == content
    assert len(pieces) > 1


async def test_bundle_is_one_tar(place: Place) -> None:
    written = await place.store.write(BUNDLE)
    whole = b"".join([piece async for piece in place.store.stream_tar(written.location)])
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        found = {member.name.partition("/")[2]: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    assert {name: found[name] for name in BUNDLE.files} == BUNDLE.files
    assert set(found) == {*BUNDLE.files, MANIFEST}


@pytest.mark.parametrize(
    ("location", "name"),
    [
        (None, "other"),
        (None, "../report.json"),
        (None, "/etc/passwd"),
        ("weather/sea/20260301T120000.123456Z_" + "0" * 26, "report.json"),
        ("../../etc", "passwd"),
        ("", ""),
    ],
)
async def test_what_is_not_there_is_missing(place: Place, location: str | None, name: str) -> None:
    written = await place.store.write(BUNDLE)
    with pytest.raises(StoreError) as caught:
        await place.store.read(location if location is not None else written.location, name)
    assert caught.value.code == "artifact.missing"


@pytest.mark.parametrize(
    "changes",
    [
        {"category": ".."},
        {"platform": "a/b"},
        {"attempt_id": "../x"},
        {"files": {"../x": b""}},
        {"files": {MANIFEST: b""}},
    ],
)
async def test_names_that_lead_elsewhere_are_refused(place: Place, changes: dict[str, object]) -> None:
    with pytest.raises(StoreError) as caught:
        await place.store.write(replace(BUNDLE, **changes))  # type: ignore[arg-type]
    assert caught.value.code == "artifact.name"


async def test_removed_bundle_is_gone_and_so_it_is_again(place: Place) -> None:
    written, other = await place.store.write(BUNDLE), await place.store.write(replace(BUNDLE, platform="air"))
    for _ in range(2):
        await place.store.remove(written.location)
    with pytest.raises(StoreError) as caught:
        await place.store.read(written.location, "report.json")
    assert caught.value.code == "artifact.missing"
    assert await place.store.read(other.location, "report.json") == b'{"a": 1}'


async def test_second_run_has_a_bundle_of_its_own(place: Place) -> None:
    first = await place.store.write(BUNDLE)
    second = await place.store.write(replace(BUNDLE, run_number=2, files={"report.json": b"second"}))
    assert second.location.endswith(".run2")
    assert await place.store.read(first.location, "report.json") == b'{"a": 1}'
    assert await place.store.read(second.location, "report.json") == b"second"


async def test_there_is_room_and_nothing_to_sweep(place: Place) -> None:
    written = await place.store.write(BUNDLE)
    assert await place.store.free_bytes() > 0
    assert await place.store.sweep() == 0
    assert not await place.store.list_superseded()
    assert await place.store.read(written.location, "report.json")


@in_cluster
@pytest.mark.parametrize("name", ["report.json", MANIFEST])
@pytest.mark.parametrize("content", [b'{"a": 2}', b'{"a": 1}' + bytes(PIECE_BYTES), b"{"])
async def test_changed_object_is_an_error_that_says_so(place: Place, name: str, content: bytes) -> None:
    written = await place.store.write(BUNDLE)
    place.change(written.location, name, content)
    reader = place.open()
    with pytest.raises(StoreError, match="was changed: its SHA-256 differs") as caught:
        await reader.read(written.location, "report.json")
    assert caught.value.code == "artifact.damaged"
    for taking in (reader.read_chunks(written.location, "report.json"), reader.stream_tar(written.location)):
        with pytest.raises(StoreError, match="was changed: its SHA-256 differs"):
            await joined(taking)


@in_cluster
async def test_same_bundle_of_two_gateways_is_one_and_another_is_another(place: Place) -> None:
    other = place.open()
    first, again = await place.store.write(BUNDLE), await other.write(BUNDLE)
    assert first == again
    changed = await other.write(replace(BUNDLE, files={**BUNDLE.files, "report.json": b"changed"}))
    assert changed.location != first.location
    assert await place.store.read(first.location, "report.json") == b'{"a": 1}'
    assert await place.store.read(changed.location, "report.json") == b"changed"


def old_as(monkeypatch: pytest.MonkeyPatch, age_s: float) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + age_s)


@in_cluster
async def test_old_bundles_that_no_verdict_names_are_swept(
    place: Place, jobs: object, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = make.attempt(1)
    named = replace(BUNDLE, attempt_id=attempt.id, created_at=attempt.created_at)
    written = await place.store.write(named)
    unnamed = await place.store.write(replace(named, files={"report.json": b"lost"}))
    await jobs.accept(attempt, b"{}")  # type: ignore[attr-defined]
    await jobs.finish(make.finished(1, bundle=written.location))  # type: ignore[attr-defined]
    assert await remove_unreferenced_bundles(place.store, jobs.access) == 0  # type: ignore[arg-type,attr-defined]
    old_as(monkeypatch, MIN_SWEEP_AGE_S + 60)
    assert await remove_unreferenced_bundles(place.store, jobs.access) == 1  # type: ignore[arg-type,attr-defined]
    assert await place.store.read(written.location, "report.json")
    with pytest.raises(StoreError, match="doesn't exist"):
        await place.open().read(unnamed.location, "report.json")


async def test_unfinished_write_to_a_shared_directory_is_left_alone_until_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PackedArtifactStore(tmp_path)
    written = await store.write(BUNDLE)
    (tmp_path / "weather/sea/.tmp-x").write_bytes(b"begun")
    assert await store.sweep() == 0
    old_as(monkeypatch, MIN_SWEEP_AGE_S + 60)
    assert await store.sweep() == 1
    assert [location async for location, _, _ in store.iter_locations()] == [written.location]


async def test_shared_bundle_is_a_tar_file_that_every_program_reads(tmp_path: Path) -> None:
    store = PackedArtifactStore(tmp_path)
    written = await store.write(BUNDLE)
    path = tmp_path / f"{written.location}.tar"
    with tarfile.open(path) as tar:
        assert set(tar.getnames()) == {*BUNDLE.files, MANIFEST}
    assert path.stat().st_mode & 0o777 == 0o400


async def test_shared_bundle_of_many_files_is_looked_through_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, opens = [], tarfile.open

    def counted(*args: object, **more: object) -> tarfile.TarFile:
        opened.append(args)
        return opens(*args, **more)  # type: ignore[call-overload,no-any-return]

    store = VerifiedArtifactStore(PackedArtifactStore(tmp_path))
    written = await store.write(replace(BUNDLE, files={f"{number}": b"x" for number in range(30)}))
    monkeypatch.setattr(tarfile, "open", counted)
    assert len(await joined(store.stream_tar(written.location))) > 30 * 1024
    assert len(opened) == 1


async def test_shared_bundle_that_was_damaged_and_is_restored_is_read_again(tmp_path: Path) -> None:
    store = VerifiedArtifactStore(PackedArtifactStore(tmp_path))
    written = await store.write(BUNDLE)
    path = tmp_path / f"{written.location}.tar"
    whole = path.read_bytes()
    path.unlink()
    with tarfile.open(path, "w") as tar:
        tar.addfile(tarfile.TarInfo("report.json"))
    with pytest.raises(StoreError):
        await store.read(written.location, "report.json")
    path.write_bytes(whole)
    assert await store.read(written.location, "report.json") == BUNDLE.files["report.json"]


async def test_shared_bundle_that_is_no_tar_file_is_damaged(tmp_path: Path) -> None:
    store = VerifiedArtifactStore(PackedArtifactStore(tmp_path))
    written = await store.write(BUNDLE)
    path = tmp_path / f"{written.location}.tar"
    path.chmod(0o600)
    path.write_bytes(b"nothing of it")
    with pytest.raises(StoreError) as caught:
        await store.read(written.location, "report.json")
    assert caught.value.code == "artifact.damaged"


async def test_unfinished_upload_is_left_alone_until_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryStore()
    store = ObjectArtifactStore(memory)
    written = await store.write(BUNDLE)
    obstore.delete(memory, f"{written.location}/{MANIFEST}")
    whole = await store.write(replace(BUNDLE, platform="air"))
    assert await store.sweep() == 0
    old_as(monkeypatch, MIN_SWEEP_AGE_S + 60)
    assert await store.sweep() == 1
    assert [location async for location, _, _ in store.iter_locations()] == [whole.location]
