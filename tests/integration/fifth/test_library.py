"""`assay images build NAME --library DIR`: the image contains the folder, and programs load from it."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from assayd.engines.docker import DockerEngine
from assayd.model.report import Verdict
from assayd.package_data import get_shared_data_path
from assayd_client.cli.images import build_images
from support.daemons.attempts import Attempts, attempts_on
from support.engines import engine_image

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="module")]

CACHE = Path(__file__).resolve().parents[3] / ".run/cache/images"
LIBRARY = {
    "html.fs": 'require str.fs\n: html>stdout ( -- ) ;\n: h1. ( addr u -- ) ." <h1>" str-type ." </h1>" ;\n',
    "str.fs": ": str-type ( addr u -- ) type ;\n",
}
USE = 'html>stdout s" Hi" h1.\n'
PROGRAMS: dict[str, Mapping[str, object]] = {
    "required": {"code": f"require ~/fifth/lib/html.fs\n{USE}"},
    "listed": {"code": USE, "libraries": ["html"]},
}


@pytest.fixture(scope="module")
def with_library(docker_host: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the Forth image with a library under a new name; return the name."""
    name, work = f"forth-{secrets.token_hex(4)}", tmp_path_factory.mktemp("build")
    shutil.copytree(get_shared_data_path("images", "forth"), work / "recipes" / name)
    shutil.copy(get_shared_data_path("images", "base.toml"), work / "recipes")
    if (CACHE / "forth").is_dir():  # its base is that of the same recipe by another name
        shutil.copytree(CACHE / "forth", work / "cache" / name, symlinks=True)
    library = work / "library"
    library.mkdir()
    for file, text in LIBRARY.items():
        (library / file).write_text(text)
    build_images([name], work / "cache", library, recipes=work / "recipes")
    yield name
    engine_image.drop(f"assayd/{name}:latest")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def attempts(docker_host: str) -> AsyncIterator[Attempts]:
    """Return an object that runs submissions where the image was built."""
    async with attempts_on(DockerEngine(base_url=docker_host)) as made:
        yield made


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
async def test_program_runs_with_the_library_that_was_built_in(
    with_library: str, attempts: Attempts, program: Mapping[str, object]
) -> None:
    tried = await attempts.submit("fifth", {**program, "execute": True}, image=with_library)

    assert (tried.verdict, tried.rules) == (Verdict.VALIDATED, [])
    assert tried.case.stdout == "<h1>Hi</h1>"


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
async def test_image_without_the_library_says_that_it_is_not_there(
    attempts: Attempts, program: Mapping[str, object]
) -> None:
    tried = await attempts.submit("fifth", {**program, "execute": True})

    assert (tried.verdict, tried.rules) == (Verdict.VALIDATED, ["fifth.library_unavailable"])
    assert tried.case.stdout == ""
