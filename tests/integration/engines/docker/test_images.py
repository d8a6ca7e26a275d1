"""Loading images into the Docker engine, and reading them back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assayd.engines.docker import DockerEngine
from assayd.errors import EngineError
from assayd.imaging.archive import Image, pack_layer, write_archive
from support.engines import engine_image

pytestmark = pytest.mark.engine

NAME = "assayd-test/tiny:latest"


@pytest.fixture
async def engine() -> AsyncIterator[DockerEngine]:
    made = DockerEngine(base_url=None)
    yield made
    await made.close()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").write_text("content")
    layer = pack_layer(root, tmp_path / "layer.tar")
    image = Image(
        tag=NAME,
        architecture="amd64",
        user="10001:10001",
        entrypoint=["/file"],
        environment={"PATH": "/"},
        labels={"a": "b"},
    )
    write_archive(tmp_path / "image.tar", image, [(layer, tmp_path / "layer.tar")])
    return tmp_path / "image.tar"


async def test_image_that_was_loaded_can_be_found_and_its_files_read(
    engine: DockerEngine, archive: Path
) -> None:
    loaded = await engine.load_image(archive)
    try:
        assert (await engine.image(NAME)).digest == loaded.digest
        assert (loaded.name, loaded.labels) == (NAME, {"a": "b"})
        assert await engine.image_file(NAME, "file", 7) == b"content"
    finally:
        engine_image.drop(NAME)


async def test_file_that_is_no_archive_is_refused(engine: DockerEngine, tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(b"no archive" * 1000)
    with pytest.raises(EngineError) as caught:
        await engine.load_image(tmp_path / "image.tar")
    assert caught.value.code in {"image.archive_refused", "engine.failed", "engine.refused"}


async def test_archive_that_is_not_there_is_missing(engine: DockerEngine, tmp_path: Path) -> None:
    with pytest.raises(EngineError) as caught:
        await engine.load_image(tmp_path / "absent.tar")
    assert caught.value.code == "image.archive_missing"


async def test_image_that_is_not_there_has_no_files(engine: DockerEngine) -> None:
    with pytest.raises(EngineError) as caught:
        await engine.image_file("assayd-test/absent", "file", 7)
    assert caught.value.code == "image.missing"
