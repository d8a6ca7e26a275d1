"""The bills of materials of built images, as each engine returns them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from assayd.errors import EngineError
from assayd.imaging.sbom import MAX_BYTES, SBOM_FILE
from assayd.ports.engine import Engine
from support.engines.oci import made_engine, needs_oci
from support.texts.bill import schema_problem

PRUNED = {"dpkg", "perl-base", "tar"}
"""What comes with every package of Debian, and has no file in an image of ours."""
HAS = {"adapter": "python3-pydantic", "forth": "gforth", "python": "libc6", "shell": "jq"}


@pytest_asyncio.fixture(
    params=[pytest.param("docker", marks=pytest.mark.engine), pytest.param("oci", marks=needs_oci)]
)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    made = made_engine(request, request.param)
    yield made
    await made.close()


@pytest.mark.parametrize("image", HAS)
async def test_image_carries_a_document_of_the_packages_with_files_in_it(engine: Engine, image: str) -> None:
    document = await engine.image_file(f"assayd/{image}", SBOM_FILE, MAX_BYTES)

    assert schema_problem(document) is None
    read = json.loads(document)
    assert read["metadata"]["component"]["name"] == f"assayd/{image}"
    names = {each["name"] for each in read["components"]}
    assert HAS[image] in names
    assert not names & PRUNED


async def test_image_without_the_file_is_named(engine: Engine) -> None:
    with pytest.raises(EngineError) as caught:
        await engine.image_file("assayd/python", "usr/absent", MAX_BYTES)

    assert caught.value.code == "image.file_missing"


async def test_larger_file_is_refused(engine: Engine) -> None:
    with pytest.raises(EngineError) as caught:
        await engine.image_file("assayd/python", SBOM_FILE, 100)

    assert caught.value.code == "image.file_missing"
