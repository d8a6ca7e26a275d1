"""The store of unpacked images: by digest, verified, shared, without unused ones."""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from pathlib import Path

import pytest

from assayd.engines.oci.images import ImageStore
from assayd.errors import EngineError
from assayd.imaging.archive import Image, pack_layer, write_archive
from assayd.imaging.tree import LABEL_FILES, compute_tree_digest, read_layer_entries


def archive(folder: Path, content: str = "text", *, label: str | None = None) -> Path:
    """Pack an image like `imaging`."""
    root = folder / "root"
    (root / "usr").mkdir(parents=True, exist_ok=True)
    (root / "usr/data").write_text(content)
    layer = folder / "layer.tar"
    digest = pack_layer(root, layer)
    image = Image(
        tag="assayd/test:latest",
        architecture="amd64",
        user="10001:10001",
        entrypoint=["/usr/data"],
        environment={"LANG": "C.UTF-8"},
        labels={LABEL_FILES: label or compute_tree_digest(read_layer_entries([layer]))},
    )
    write_archive(folder / "image.tar", image, [(digest, layer)])
    return folder / "image.tar"


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    return ImageStore(tmp_path / "store")


def test_loaded_image_is_found_by_name_and_by_digest(tmp_path: Path, store: ImageStore) -> None:
    loaded = store.load(archive(tmp_path))
    assert store.find("assayd/test").digest == store.find(loaded.digest).digest == loaded.digest
    image = store.get(loaded.digest)
    assert (image.arguments, image.environment) == (("/usr/data",), ("LANG=C.UTF-8",))
    assert (image.root / "usr/data").read_text() == "text"
    store.close()


def test_files_of_an_image_can_be_read_by_everybody_and_written_by_nobody(
    tmp_path: Path, store: ImageStore
) -> None:
    image = store.get(store.load(archive(tmp_path)).digest)
    assert (image.root / "usr/data").stat().st_mode & 0o777 == 0o444
    assert (image.root / "usr").stat().st_mode & 0o777 == 0o755
    store.close()


@pytest.mark.parametrize("name", ["assayd/absent", "sha256:" + "0" * 64, "../../etc/passwd"])
def test_image_that_is_not_there_is_missing(store: ImageStore, name: str) -> None:
    store.prepare()
    with pytest.raises(EngineError, match="assay images build") as caught:
        store.find(name)
    assert caught.value.code == "image.missing"


@pytest.mark.parametrize("change", ["content", "more", "config"])
def test_image_that_was_changed_is_refused_by_the_next_engine(
    tmp_path: Path, store: ImageStore, change: str
) -> None:
    image = store.get(store.load(archive(tmp_path)).digest)
    store.close()
    match change:
        case "content":
            (image.root / "usr/data").chmod(0o644)
            (image.root / "usr/data").write_text("evil")
        case "more":
            (image.root / "more").write_text("")
        case "config":
            document = json.loads((image.folder / "config.json").read_bytes())
            document["config"]["Entrypoint"] = ["/bin/evil"]
            (image.folder / "config.json").write_text(json.dumps(document))
    with pytest.raises(EngineError) as caught:
        ImageStore(tmp_path / "store").find("assayd/test")
    assert caught.value.code == "image.damaged"


def test_loading_replaces_a_damaged_image(tmp_path: Path, store: ImageStore) -> None:
    """Regression: it was found damaged again until its folder was removed by hand."""
    image = store.get(store.load(archive(tmp_path)).digest)
    store.close()
    (image.root / "usr/data").chmod(0o644)
    (image.root / "usr/data").write_text("evil")
    with pytest.raises(EngineError, match="assay images build --repair"):
        ImageStore(tmp_path / "store").find("assayd/test")

    ImageStore(tmp_path / "store").load(archive(tmp_path))

    assert store.find("assayd/test").digest == image.digest
    assert (image.root / "usr/data").read_text() != "evil"
    store.close()


def test_folder_that_was_deleted_meanwhile_is_missing_until_it_is_loaded_again(
    tmp_path: Path, store: ImageStore
) -> None:
    """Regression: the image counted as verified, so doctor reported it as ok."""
    image = store.get(store.load(archive(tmp_path)).digest)
    shutil.rmtree(image.folder)
    assert store.get_verified(image.digest) is None
    with pytest.raises(EngineError) as caught:
        store.find("assayd/test")
    assert caught.value.code == "image.missing"

    other = ImageStore(tmp_path / "store")
    other.load(archive(tmp_path))
    other.close()

    again = store.get(store.find("assayd/test").digest)
    assert again.place != image.place
    store.close()


def test_image_whose_files_are_not_those_of_its_label_is_refused(tmp_path: Path, store: ImageStore) -> None:
    with pytest.raises(EngineError) as caught:
        store.load(archive(tmp_path, label="sha256:" + "0" * 64))
    assert caught.value.code == "image.damaged"
    store.close()


def test_image_that_nothing_refers_to_goes_when_another_takes_its_name(
    tmp_path: Path, store: ImageStore
) -> None:
    first = store.load(archive(tmp_path))
    store.close()
    store.load(archive(tmp_path, "other"))
    assert [path.name for path in store.roots.iterdir()] == [
        store.find("assayd/test").digest.removeprefix("sha256:")
    ]
    assert store.find("assayd/test").digest != first.digest
    store.close()


def test_image_that_another_engine_uses_stays(tmp_path: Path, store: ImageStore) -> None:
    user = ImageStore(tmp_path / "store")
    first = store.load(archive(tmp_path))
    user.get(first.digest)
    store.close()
    store.load(archive(tmp_path, "other"))
    assert len(list(store.roots.iterdir())) == 2
    user.close()
    store.collect()
    assert len(list(store.roots.iterdir())) == 1
    store.close()


def test_archive_that_is_not_there_is_missing(tmp_path: Path, store: ImageStore) -> None:
    with pytest.raises(EngineError) as caught:
        store.load(tmp_path / "absent.tar")
    assert caught.value.code == "image.archive_missing"


def test_file_that_is_no_archive_is_refused(tmp_path: Path, store: ImageStore) -> None:
    (tmp_path / "bad.tar").write_text("no archive")
    with pytest.raises(EngineError) as caught:
        store.load(tmp_path / "bad.tar")
    assert caught.value.code == "image.archive_refused"
    assert list(store.roots.iterdir()) == []


@pytest.mark.parametrize("way_out", ["absolute", "dots", "link"])
def test_layer_that_leads_out_of_the_image_is_refused(
    tmp_path: Path, store: ImageStore, way_out: str
) -> None:
    layer = tmp_path / "evil.tar"
    with tarfile.open(layer, "w") as tar:
        if way_out == "link":
            link = tarfile.TarInfo("out")
            link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
            tar.addfile(link)
        names = {"absolute": str(tmp_path / "hit"), "dots": "../../../../hit", "link": "out/hit"}
        tar.addfile(tarfile.TarInfo(names[way_out]))
    digest = hashlib.sha256(layer.read_bytes()).hexdigest()
    image = Image(
        tag="evil:latest", architecture="amd64", user="0", entrypoint=["/x"], environment={}, labels={}
    )
    write_archive(tmp_path / "image.tar", image, [(f"sha256:{digest}", layer)])
    with pytest.raises(EngineError) as caught:
        store.load(tmp_path / "image.tar")
    assert caught.value.code == "image.archive_refused"
    assert not list(tmp_path.rglob("hit"))


def test_file_of_an_image_is_read(tmp_path: Path, store: ImageStore) -> None:
    store.load(archive(tmp_path))
    assert store.file("assayd/test", "usr/data", 100) == b"text"
    store.close()


@pytest.mark.parametrize(("path", "most_bytes"), [("absent", 100), ("usr", 100), ("usr/data", 3)])
def test_file_that_an_image_lacks_is_refused(
    tmp_path: Path, store: ImageStore, path: str, most_bytes: int
) -> None:
    store.load(archive(tmp_path))
    with pytest.raises(EngineError) as caught:
        store.file("assayd/test", path, most_bytes)
    assert caught.value.code == "image.file_missing"
    store.close()


def select_image(folder: Path, name: str, contents: dict[str, str]) -> Path:
    """Pack an image with this name and these files."""
    root, layer = folder / name / "root", folder / name / "layer.tar"
    for path, text in contents.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "run").mkdir()
    (root / "run/tool").write_text("tool")
    (root / "run/tool").chmod(0o755)
    digest = pack_layer(root, layer)
    labels = {LABEL_FILES: compute_tree_digest(read_layer_entries([layer]))}
    image = Image(
        tag=f"assayd/{name}:latest",
        architecture="amd64",
        user="1",
        entrypoint=[],
        environment={},
        labels=labels,
    )
    write_archive(folder / name / "image.tar", image, [(digest, layer)])
    return folder / name / "image.tar"


def test_files_that_images_have_in_common_are_kept_once(tmp_path: Path, store: ImageStore) -> None:
    first = store.get(store.load(select_image(tmp_path, "a", {"lib/x": "x" * 99, "own": "1"})).digest)
    second = store.get(store.load(select_image(tmp_path, "b", {"lib/y": "x" * 99, "own": "22"})).digest)

    assert (first.root / "lib/x").samefile(second.root / "lib/y")
    assert (first.root / "run/tool").samefile(second.root / "run/tool")
    assert not (first.root / "own").samefile(second.root / "own")
    listed = {one.name: (one.size_bytes, one.shared_bytes) for one in store.listed()}
    assert listed == {"assayd/a": (104, 103), "assayd/b": (105, 103)}
    store.close()


def test_image_without_a_name_shares_nothing_in_the_list(tmp_path: Path, store: ImageStore) -> None:
    first = store.load(select_image(tmp_path, "a", {"lib/x": "x" * 99})).digest
    (tmp_path / "anew").mkdir()
    store.load(select_image(tmp_path / "anew", "a", {"lib/x": "x" * 99, "more": "1"}))

    listed = {one.digest: one.shared_bytes for one in store.listed()}

    assert first not in listed
    assert list(listed.values()) == [0]
    store.close()


def test_program_and_data_of_the_same_content_are_not_the_same_file(
    tmp_path: Path, store: ImageStore
) -> None:
    image = store.get(store.load(select_image(tmp_path, "a", {"doc": "tool"})).digest)

    assert not (image.root / "doc").samefile(image.root / "run/tool")
    assert (image.root / "doc").stat().st_mode & 0o777 == 0o444
    store.close()


def test_damaged_file_is_not_passed_on_to_another_image(tmp_path: Path, store: ImageStore) -> None:
    first = store.get(store.load(select_image(tmp_path, "a", {"lib/x": "good"})).digest)
    (first.root / "lib/x").chmod(0o644)
    (first.root / "lib/x").write_text("evil")
    (first.root / "lib/x").chmod(0o444)

    second = store.get(store.load(select_image(tmp_path, "b", {"lib/x": "good", "b": ""})).digest)

    assert (second.root / "lib/x").read_text() == "good"
    store.close()


def test_forgotten_image_goes_with_what_only_it_had(tmp_path: Path, store: ImageStore) -> None:
    store.load(select_image(tmp_path, "a", {"lib/x": "x", "own": "1"}))
    store.load(select_image(tmp_path, "b", {"lib/x": "x"}))

    store.forget("assayd/a")
    store.forget("assayd/a")

    assert [one.name for one in store.listed()] == ["assayd/b"]
    kept = [path.read_text() for path in (tmp_path / "store/files").glob("*/*")]
    assert sorted(kept) == ["tool", "x"]
    store.close()


def test_image_that_another_engine_uses_is_not_forgotten(tmp_path: Path, store: ImageStore) -> None:
    loaded = store.load(select_image(tmp_path, "a", {"x": "x"}))
    other = ImageStore(tmp_path / "store")
    other.get(loaded.digest)

    with pytest.raises(EngineError) as caught:
        store.forget("assayd/a")

    assert caught.value.code == "image.in_use"
    assert store.find("assayd/a").digest == loaded.digest
    other.close()
    store.forget("assayd/a")
    assert store.listed() == []
