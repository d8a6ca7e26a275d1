from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from assayd.errors import StoreError
from assayd.model.attempt import Bundle
from assayd.ports.artifacts import ArtifactStore
from assayd.store.artifacts import OTHER, FileArtifactStore, detect_media_type

ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
LOCATION = f"weather/open_meteo/20260301T120000.000123Z_{ID}"


def bundle(**values: object) -> Bundle:
    given = {
        "attempt_id": ID,
        "run_number": 1,
        "created_at": datetime(2026, 3, 1, 12, 0, 0, 123, tzinfo=UTC),
        "category": "weather",
        "platform": "open_meteo",
        "files": {"stdout.log": b"hello\n", "validation.json": b"{}", "files/data/out.csv": b"a,b\n"},
        "truncated": frozenset({"stdout.log"}),
        "manifest": {"versions": {"assayd": "1"}},
    }
    return Bundle(**{**given, **values})  # type: ignore[arg-type]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def store(root: Path) -> ArtifactStore:
    return FileArtifactStore(root)


def files_below(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


async def test_bundle_lies_where_its_labels_say_with_a_manifest_of_every_file(
    store: ArtifactStore, root: Path
) -> None:
    written = await store.write(bundle())
    assert written.location == LOCATION
    assert store.path(LOCATION) == root / LOCATION
    assert files_below(root / LOCATION) == [
        "files/data/out.csv",
        "manifest.json",
        "stdout.log",
        "validation.json",
    ]
    manifest = json.loads((root / LOCATION / "manifest.json").read_text())
    assert manifest["versions"] == {"assayd": "1"}
    assert manifest["files"][1] == {
        "name": "stdout.log",
        "bytes": 6,
        "sha256": hashlib.sha256(b"hello\n").hexdigest(),
        "truncated": True,
    }


async def test_written_artifacts_describe_what_lies_there(store: ArtifactStore, root: Path) -> None:
    written = await store.write(bundle())
    for artifact in written.artifacts:
        content = (root / written.location / artifact.name).read_bytes()
        assert (artifact.bytes, artifact.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    types = {a.name: a.media_type for a in written.artifacts}
    assert types["manifest.json"] == "application/json"
    assert types["stdout.log"].startswith("text/plain")


async def test_written_bundle_is_read_only_and_for_its_owner(store: ArtifactStore, root: Path) -> None:
    await store.write(bundle())
    modes = {p.name: p.stat().st_mode & 0o777 for p in (root / LOCATION).rglob("*")}
    assert modes == {
        "files": 0o500,
        "data": 0o500,
        "out.csv": 0o400,
        "manifest.json": 0o400,
        "stdout.log": 0o400,
        "validation.json": 0o400,
    }
    assert (root / LOCATION).stat().st_mode & 0o777 == 0o500
    assert root.stat().st_mode & 0o777 == 0o700


async def test_second_run_of_an_attempt_has_a_folder_of_its_own(store: ArtifactStore) -> None:
    await store.write(bundle())
    assert (await store.write(bundle(run_number=2))).location == LOCATION + ".run2"


async def test_rewrite_after_an_interrupted_first_run_keeps_both(store: ArtifactStore, root: Path) -> None:
    await store.write(bundle(run_number=0))
    again = await store.write(bundle(run_number=0, files={"stdout.log": b"again"}))
    assert again.location == LOCATION + ".run2"
    assert (root / LOCATION / "stdout.log").read_bytes() == b"hello\n"
    assert await store.list_superseded() == [LOCATION]


async def test_rewrite_after_two_interrupted_runs_takes_the_place_of_the_second(
    store: ArtifactStore, root: Path
) -> None:
    for _ in range(2):
        await store.write(bundle(run_number=0))
    again = await store.write(bundle(run_number=0, files={"stdout.log": b"third"}))
    assert again.location == LOCATION + ".run2"
    assert (root / again.location / "stdout.log").read_bytes() == b"third"
    assert await store.sweep() == 0


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/x",
        "a//b",
        "a/../b",
        ".",
        "",
        "a\x00b",
        "a\nb",
        "x" * 256,
        "/".join("a" * 17),
        "\udcff\ud800",
        "manifest.json",
    ],
)
async def test_file_name_that_could_lead_elsewhere_is_refused(
    store: ArtifactStore, root: Path, name: str
) -> None:
    with pytest.raises(StoreError) as caught:
        await store.write(bundle(files={name: b""}))
    assert caught.value.code == "artifact.name"
    assert not root.exists()


@pytest.mark.parametrize("name", ["", "..", "a/b", "Weather", "_x", "a" * 65, "a\n"])
@pytest.mark.parametrize("field", ["category", "platform"])
async def test_folder_name_outside_its_alphabet_is_refused(
    store: ArtifactStore, field: str, name: str
) -> None:
    with pytest.raises(StoreError) as caught:
        await store.write(bundle(**{field: name}))
    assert caught.value.code == "artifact.name"


async def test_attempt_id_that_is_none_is_refused(store: ArtifactStore) -> None:
    with pytest.raises(StoreError) as caught:
        await store.write(bundle(attempt_id="../../x"))
    assert caught.value.code == "artifact.name"


@pytest.mark.parametrize("planted", ["weather", "weather/open_meteo"])
async def test_link_in_the_way_is_not_followed(
    store: ArtifactStore, root: Path, tmp_path: Path, planted: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / planted).parent.mkdir(parents=True)
    (root / planted).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError) as caught:
        await store.write(bundle())
    assert caught.value.code == "store.unwritable"
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_file_of_a_bundle_is_read_back(store: ArtifactStore) -> None:
    await store.write(bundle())
    assert await store.read(LOCATION, "files/data/out.csv") == b"a,b\n"


@pytest.mark.parametrize(
    "name", ["none", "files", "files/data/none", "../stdout.log", "", "stdout.log/x", "/etc/passwd"]
)
async def test_name_that_is_no_file_of_the_bundle_is_missing(store: ArtifactStore, name: str) -> None:
    await store.write(bundle())
    with pytest.raises(StoreError) as caught:
        await store.read(LOCATION, name)
    assert caught.value.code == "artifact.missing"


@pytest.mark.parametrize("location", ["", "a/b", "../../etc", f"x/y/{LOCATION}", "weather/open_meteo/.tmp-x"])
async def test_location_that_no_write_gave_is_missing(store: ArtifactStore, location: str) -> None:
    with pytest.raises(StoreError) as caught:
        await store.read(location, "stdout.log")
    assert caught.value.code == "artifact.missing"


async def test_tar_holds_every_file_of_the_bundle(store: ArtifactStore) -> None:
    await store.write(
        bundle(files={"stdout.log": b"x" * 1000, "files/ü.txt": b"", "files/" + "n" * 150: b"1"})
    )
    stream = b"".join([chunk async for chunk in store.stream_tar(LOCATION)])
    with tarfile.open(fileobj=io.BytesIO(stream)) as archive:
        folder = LOCATION.rpartition("/")[2]
        sizes = {member.name.removeprefix(folder + "/"): member.size for member in archive.getmembers()}
    assert sizes.pop("manifest.json") > 0
    assert sizes == {"stdout.log": 1000, "files/ü.txt": 0, "files/" + "n" * 150: 1}


async def test_removed_bundle_is_gone_and_removing_it_again_is_fine(store: ArtifactStore, root: Path) -> None:
    await store.write(bundle())
    await store.remove(LOCATION)
    assert files_below(root) == []
    await store.remove(LOCATION)


async def test_sweep_removes_what_an_interrupted_write_left_and_nothing_else(
    store: ArtifactStore, root: Path
) -> None:
    await store.write(bundle())
    left = root / "weather" / "open_meteo" / ".tmp-01X"
    (left / "files").mkdir(parents=True)
    (left / "files" / "a").write_text("half")
    (left / "files").chmod(0o500)
    assert await store.sweep() == 1
    assert not left.exists()
    assert await store.read(LOCATION, "stdout.log") == b"hello\n"


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "store.full"),
        (errno.EDQUOT, "store.full"),
        (errno.EROFS, "store.unwritable"),
        (errno.EIO, "store.failed"),
    ],
)
async def test_disk_that_fails_at_the_flush_leaves_no_trace(
    store: ArtifactStore, root: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    await store.write(bundle())

    def fail(_handle: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(StoreError) as caught:
            await store.write(bundle(run_number=2))
    assert caught.value.code == code
    assert [p.name for p in (root / "weather/open_meteo").iterdir()] == [LOCATION.rpartition("/")[2]]


async def test_root_that_cannot_be_made_is_unwritable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as caught:
        await FileArtifactStore(tmp_path / "file" / "x").write(bundle())
    assert caught.value.code == "store.unwritable"


async def test_free_bytes_are_those_of_the_file_system(store: ArtifactStore, root: Path) -> None:
    await store.sweep()
    facts = os.statvfs(root)
    assert abs(await store.free_bytes() - facts.f_bavail * facts.f_frsize) < 2**30


async def test_many_files_do_not_leak_descriptors(store: ArtifactStore) -> None:
    await store.write(bundle(attempt_id="0" * 26))
    before = len(list(Path("/proc/self/fd").iterdir()))
    await store.write(bundle(files={f"files/{n}/{n}": b"x" for n in range(100)}))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("files/plot.png", PNG, "image/png"),
        ("files/a.b/photo.jpg", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("files/moves.gif", b"GIF89a", "image/gif"),
        ("files/page.pdf", b"%PDF-1.7", "application/pdf"),
        ("files/p.webp", b"RIFF\x00\x00\x00\x00WEBP", "image/webp"),
        ("files/rows.csv", b"a,b", "text/csv; charset=utf-8"),
        ("report.json", b"{}", "application/json"),
    ],
)
def test_file_that_is_what_its_name_says_has_its_type(name: str, content: bytes, wanted: str) -> None:
    assert detect_media_type(name, content) == wanted


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("files/plot.png", b"<script>"),
        ("files/plot.png", b""),
        ("files/plot.jpg", PNG),
        ("files/plot", PNG),
        ("files/.png", PNG),
        ("files/plot.svg", b"<svg/>"),
        ("files/page.html", b"<html>"),
        ("files/p.webp", b"RIFF\x00\x00\x00\x00WAVE"),
    ],
)
def test_anything_else_goes_as_bytes(name: str, content: bytes) -> None:
    assert detect_media_type(name, content) == OTHER
