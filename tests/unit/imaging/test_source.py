"""Foreign images on disk: every part has the digest that the image names, and an allowed size."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from assayd.errors import ConfigError
from assayd.imaging.source import open_image_source, open_tar, unpack_layer
from support.engines.foreign_images import (
    ARCHITECTURE,
    files,
    member,
    write_docker_archive,
    write_oci_layout,
)

LAYERS = [files({"a": b"1"}), files({"b": b"2"})]
ENVIRONMENT = ["PATH=/bin", "GREETING=hi"]
MOST = 1 << 20


def packed(folder: Path) -> Path:
    """Return a layout as an archive."""
    target = folder.with_suffix(".tar")
    with tarfile.open(target, "w") as tar:
        tar.add(folder, ".")
    return target


def zipped(archive: Path) -> Path:
    archive.write_bytes(gzip.compress(archive.read_bytes()))
    return archive


@pytest.fixture(params=["layout", "archive of a layout", "docker save", "docker save, packed"])
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    layout = write_oci_layout(tmp_path / "layout", LAYERS, environment=ENVIRONMENT)
    saved = write_docker_archive(tmp_path / "saved.tar", LAYERS, environment=ENVIRONMENT)
    return {
        "layout": lambda: layout,
        "archive of a layout": lambda: packed(layout),
        "docker save": lambda: saved,
        "docker save, packed": lambda: zipped(saved),
    }[request.param]()


def test_image_is_read_whatever_form_it_lies_in(image: Path, tmp_path: Path) -> None:
    with open_image_source(image, None, ARCHITECTURE) as source:
        for number, layer in enumerate(source.layers):
            unpack_layer(source, layer, tmp_path / f"{number}.tar", MOST)

    assert source.environment == ENVIRONMENT
    assert source.architecture == ARCHITECTURE
    assert [(tmp_path / f"{number}.tar").read_bytes() for number in (0, 1)] == LAYERS


def test_image_has_the_same_digest_in_every_form(image: Path, tmp_path: Path) -> None:
    other = write_oci_layout(tmp_path / "other", LAYERS, environment=ENVIRONMENT)

    with (
        open_image_source(image, None, ARCHITECTURE) as source,
        open_image_source(other, None, ARCHITECTURE) as same,
    ):
        assert source.digest == same.digest


def test_layer_that_was_changed_is_refused(tmp_path: Path) -> None:
    layout = write_oci_layout(tmp_path / "layout", LAYERS)
    with open_image_source(layout, None, ARCHITECTURE) as source:
        (layout / source.layers[0].path).write_bytes(gzip.compress(LAYERS[1]))

    with pytest.raises(ConfigError, match="doesn't match the layer's digest") as raised:  # noqa: SIM117
        with open_image_source(layout, None, ARCHITECTURE) as source:
            unpack_layer(source, source.layers[0], tmp_path / "layer.tar", MOST)
    assert raised.value.code == "image.source_invalid"


def test_configuration_that_was_changed_is_refused(tmp_path: Path) -> None:
    layout = write_oci_layout(tmp_path / "layout", LAYERS)
    for blob in (layout / "blobs/sha256").iterdir():
        if b"diff_ids" in blob.read_bytes():
            blob.write_bytes(blob.read_bytes().replace(b"root", b"toor"))

    with pytest.raises(ConfigError, match="doesn't match its digest"):  # noqa: SIM117
        with open_image_source(layout, None, ARCHITECTURE):
            pass


def test_layer_that_grows_when_it_is_unpacked_is_stopped(tmp_path: Path) -> None:
    layout = write_oci_layout(tmp_path / "layout", [files({"zeros": bytes(4 * MOST)})])

    with pytest.raises(ConfigError) as raised:  # noqa: SIM117
        with open_image_source(layout, None, ARCHITECTURE) as source:
            unpack_layer(source, source.layers[0], tmp_path / "layer.tar", MOST)

    assert raised.value.code == "image.source_too_large"
    assert (tmp_path / "layer.tar").stat().st_size <= MOST


def test_link_in_a_layout_leads_to_nothing_of_this_machine(tmp_path: Path) -> None:
    layout = write_oci_layout(tmp_path / "layout", LAYERS)
    secret = tmp_path / "secret"
    secret.write_text((layout / "index.json").read_text())
    (layout / "index.json").unlink()
    (layout / "index.json").symlink_to(secret)

    with pytest.raises(ConfigError, match="it has neither"):  # noqa: SIM117
        with open_image_source(layout, None, ARCHITECTURE):
            pass


def test_one_of_several_images_is_chosen_by_its_tag(tmp_path: Path) -> None:
    archive = tmp_path / "saved.tar"
    config = json.dumps({"architecture": ARCHITECTURE, "config": {}, "rootfs": {"diff_ids": []}}).encode()
    images = [{"Config": "c.json", "RepoTags": [f"{name}:latest"], "Layers": []} for name in "ab"]
    archive.write_bytes(files({"manifest.json": json.dumps(images).encode(), "c.json": config}))

    with open_image_source(archive, "a", ARCHITECTURE) as source:
        assert source.layers == []
    with pytest.raises(ConfigError, match="--tag: a:latest, b:latest") as raised:  # noqa: SIM117
        with open_image_source(archive, None, ARCHITECTURE):
            pass
    assert raised.value.code == "image.source_ambiguous"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no tar",
        files({"etc/passwd": b""}),
        files({"manifest.json": b"{"}),
        files({"manifest.json": b'[{"Config": 3}]'}),
        files({"manifest.json": b"[" * 100_000}),
        files({"index.json": b'{"manifests": [{"digest": "sha256:../../etc/passwd"}]}'}),
    ],
    ids=range(7),
)
def test_what_is_no_image_is_refused_with_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "image.tar").write_bytes(content)

    with pytest.raises(ConfigError, match=r"image\.tar can't be adopted"):  # noqa: SIM117
        with open_image_source(tmp_path / "image.tar", None, ARCHITECTURE):
            pass


def test_header_that_would_fill_memory_is_refused() -> None:
    info = member("pax", tarfile.XHDTYPE)
    info.size = 1 << 30
    content = info.tobuf() + bytes(1024)

    with pytest.raises(tarfile.TarError):  # noqa: SIM117
        with open_tar(io.BytesIO(content)) as tar:
            tar.getmembers()
