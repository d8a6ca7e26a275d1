"""An operator's own image, from its recipe to a script that uses its wheels, and hostile programs in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from assayd.errors import ConfigError
from assayd.model.run import Program
from assayd.ports.engine import ImageFacts
from assayd.sandbox.isolation_check import check_isolation
from assayd.sandbox.sandbox import Sandbox
from assayd_client.cli import images as cli_images
from support.engines.oci import ROOT, needs_oci, oci_engine
from support.engines.sandboxes import run, sandbox_on
from support.guests.hostile_program import escapes, read_programs
from support.texts.wheels import make_index, make_wheel

pytestmark = [needs_oci, pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]

RECIPE = """
extends = "python"
python_packages = ["shout"]
preload = ["shout"]
[files]
"usr/share/shout/greeting.txt" = "greeting.txt"
[environment]
SHOUT_TWICE = "1"
"""
CODE = """
import os
print(os.environ, open("/usr/share/shout/greeting.txt").read())
import shout
print(shout.loud())
"""
HOSTILE = [
    program
    for program in read_programs(ROOT / "tests/escape/programs")
    if program.family in {"kernel", "proc", "sockets"}
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def index(place: Path) -> Iterator[Path]:
    """Create the recipe and the index, and point builds to them with environment variables."""
    (place / "images.d").mkdir()
    (place / "images.d/loud.toml").write_text(RECIPE)
    (place / "images.d/greeting.txt").write_text("hello")
    patch = pytest.MonkeyPatch()
    patch.setenv("PIP_INDEX_URL", make_index(place / "index"))
    patch.setenv("PIP_NO_CACHE_DIR", "1")
    patch.setenv("PIP_CONFIG_FILE", "/dev/null")
    patch.setenv("ASSAYD_IMAGES__RECIPES_DIR", str(place / "images.d"))
    patch.setenv("ASSAYD_ENGINE__KIND", "oci")
    patch.setenv("ASSAYD_ENGINE__IMAGES_DIR", str(place / "store"))
    yield place / "index"
    patch.undo()


@pytest.fixture(scope="module")
def built(index: Path, place: Path) -> Path:
    """Lock and build the image; return the store."""
    cli_images.lock_recipe("loud")
    cli_images.build_images(["loud"], place / "cache")
    return place / "store"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(built: Path) -> AsyncIterator[Sandbox]:
    engine = oci_engine(built)
    try:
        async with sandbox_on(engine, ready=1) as made:
            yield made
    finally:
        await engine.close()


async def test_script_uses_wheels_files_and_constants_of_the_image(sandbox: Sandbox) -> None:
    spec = replace(HOSTILE[0].spec(), image="loud")
    [unit] = spec.units
    asked = replace(unit, program=Program.PYTHON, arguments=_python(CODE), status_decides=True)

    result = await run(sandbox, replace(spec, units=(asked,)))

    stdout = result.units[0].stdout.text()
    assert stdout == "environ({'SHOUT_TWICE': '1'}) hello\nSO QUIET\n", result.units[0].stderr.text()


def _python(source: str) -> dict[str, object]:
    text = {"source": source, "filename": "script.py", "builtins": "full", "as_script": True}
    return {**text, "namespace": {}, "results": []}


async def test_isolation_holds_and_the_baseline_was_measured(sandbox: Sandbox) -> None:
    facts: ImageFacts = await sandbox.images.get("loud")

    assert await check_isolation(sandbox, "loud") == []
    assert int(facts.labels["org.assayd.baseline-bytes"]) >= 32 * 2**20
    assert facts.labels["org.assayd.modules"] == "shout=1.2 whisper=2.5"


async def test_bill_of_materials_names_its_wheels(built: Path) -> None:
    document = json.loads(await asyncio.to_thread(cli_images.build_sbom, "loud"))

    purls = {each["purl"] for each in document["components"]}
    assert {"pkg:pypi/shout@1.2", "pkg:pypi/whisper@2.5"} <= purls


async def test_hostile_programs_end_in_it_as_they_do_elsewhere(sandbox: Sandbox) -> None:
    for program in HOSTILE:
        result = await run(sandbox, replace(program.spec(), image="loud"))
        # What the image sets for all code can be seen, and is all that can.
        found = set(escapes(result)) - {"ASSAYD_CONSTANTS", "SHOUT_TWICE"}
        assert (program.name, result.outcome.cause, found) == (program.name, program.cause, set())


async def test_wheel_that_was_changed_after_the_lock_builds_nothing(built: Path, index: Path) -> None:
    make_wheel(index / "whisper", "whisper", "2.5", {"whisper/__init__.py": b"import os\n"})
    (index.parent / "images.d/loud.toml").write_text(RECIPE + "# changed\n")

    with pytest.raises(ConfigError) as raised:
        await asyncio.to_thread(cli_images.build_images, ["loud"], index.parent / "cache")
    assert raised.value.code == "image.wheel_differs"
    assert "whisper==2.5 differs from the locked wheel" in raised.value.message
