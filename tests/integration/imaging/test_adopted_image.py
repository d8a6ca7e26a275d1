"""Images of others: Debian with another Python, with one too old, with none; and one of ours, quickly."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from assayd.attempts.admission import limits_of
from assayd.cli import images as cli_images
from assayd.documents import canonical
from assayd.engines.oci.images import ImageStore
from assayd.errors import ConfigError
from assayd.kinds import registry
from assayd.model.report import Judgement
from assayd.model.run import Cause, Limits, RunResult, Unit
from assayd.package_data import share
from assayd.policies import load_policies
from assayd.sandbox.isolation_check import check_isolation
from assayd.sandbox.sandbox import Sandbox
from support.engines.foreign_images import (
    debian_root,
    files,
    layer,
    member,
    write_docker_archive,
    write_oci_layout,
)
from support.engines.oci import IMAGES, ROOT, needs_oci, oci_engine
from support.engines.sandboxes import run, sandbox_on
from support.guests.hostile_program import HostileProgram, escapes, read_programs

pytestmark = [needs_oci, pytest.mark.asyncio(loop_scope="module")]

CAPS = Limits(timeout_s=0, unit_timeout_s=0, memory_bytes=0, max_processes=0, work_bytes=2**24)
ENVIRONMENT = ["PATH=/usr/local/bin:/usr/bin:/bin", "GREETING=hi", "LD_PRELOAD=/evil.so"]
EXTRAS = layer(
    [
        (member("usr/bin/su", mode=0o4755), b"#!/bin/sh\n"),
        (member("dev/mem", tarfile.CHRTYPE), b""),
        (member("etc/.wh.issue"), b""),
        (member(".assayd/guest.pyc"), b"theirs"),
        (member("evil", tarfile.SYMTYPE, link="/proc/self/root"), b""),
    ]
)
SEEN = {"GREETING", "ASSAYD_CONSTANTS", "ASSAYD_PYTHON_PATH"}
ITS_OWN_PROGRAMS = ("/bin/", "/sbin/", "/usr/", "/lib", "/.assayd/python/")
"""What images of ours must not have, and others may."""
HELD = {"kernel", "proc", "sockets", "signals", "resources"}
QUICK = {"kernel", "proc"}
PROGRAMS = read_programs(ROOT / "tests/escape/programs")

RIGHT = """
def longest_run(numbers: list) -> int:
    best = run = 0
    for before, after in zip([None] + numbers, numbers):
        run = run + 1 if before == after else 1
        best = max(best, run)
    return best

def check(candidate):
    assert candidate([]) == 0
    assert candidate([1, 1, 2, 2, 2, 1]) == 3
    assert candidate([5]) == 1

check(longest_run)
"""
WRONG = RIGHT.replace("run + 1", "run + 2")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tell everything that builds where recipes and images are."""
    folder = tmp_path_factory.mktemp("adopted")
    patch = pytest.MonkeyPatch()
    patch.setenv("ASSAYD_IMAGES__RECIPES_DIR", str(folder / "images.d"))
    patch.setenv("ASSAYD_ENGINE__KIND", "oci")
    patch.setenv("ASSAYD_ENGINE__IMAGES_DIR", str(folder / "store"))
    yield folder
    patch.undo()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(place: Path) -> AsyncIterator[Sandbox]:
    engine = oci_engine(place / "store", templates=True)
    try:
        async with sandbox_on(engine) as made:
            yield made
    finally:
        await engine.close()


def adopt(place: Path, name: str, source: Path) -> None:
    """Adopt an image as the command does; what an interpreter of ours needs is taken from the usual cache."""
    cache = ROOT / ".run/cache/images"
    cli_images.adopt_image(name, str(source), cache=cache)


def shell_without_python() -> bytes:
    """Return the files of our image `shell` but for Python, as a layer."""
    store = ImageStore(IMAGES)
    image = store.get(store.find("assayd/shell").digest)
    store.close()
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name in ("etc", "usr/bin", "usr/lib", "usr/lib64", "bin", "lib", "lib64"):
            tar.add(image.root / name, name, filter=lambda one: None if "python" in one.name else one)
    return target.getvalue()


async def submit(
    sandbox: Sandbox, image: str, payload: dict[str, object], *, kind: str = "script", policy: str = "shell"
) -> tuple[RunResult, Judgement]:
    validator = registry.find(kind)
    profile = replace(load_policies([share("policies")]).get(policy), image=image)
    read = validator.prepare(validator.payload.model_validate_json(canonical(payload)))
    spec = validator.plan(read, profile, limits_of(profile, CAPS))
    assert spec is not None
    result = await run(sandbox, spec)
    return result, validator.judge(read, profile, result)


def _with_its_python(unit: Unit) -> Unit:
    """Start the image's Python where ours is named."""
    argv = unit.arguments.get("argv")
    if not isinstance(argv, list) or not str(argv[0]).endswith("python3.11"):
        return unit
    return replace(unit, arguments={**unit.arguments, "argv": ["python3", *argv[1:]]})


async def ends_as(sandbox: Sandbox, program: HostileProgram, image: str) -> tuple[str, Cause, set[str]]:
    spec = replace(program.spec(), image=image)
    result = await run(sandbox, replace(spec, units=tuple(_with_its_python(unit) for unit in spec.units)))
    found = {one for one in escapes(result) if one not in SEEN and not one.startswith(ITS_OWN_PROGRAMS)}
    return program.name, result.outcome.cause, found


@pytest.fixture(scope="module")
def plain(place: Path) -> str:
    layers = [shell_without_python(), EXTRAS]
    adopt(place, "plain", write_oci_layout(place / "plain", layers, environment=ENVIRONMENT))
    return "plain"


async def test_image_without_python_runs_its_programs_within_all_walls(sandbox: Sandbox, plain: str) -> None:
    told = "echo $GREETING-$LD_PRELOAD; test ! -e /usr/bin/su; test ! -e /dev/mem; echo x >/x"
    result, _ = await submit(sandbox, plain, {"argv": ["bash", "-c", told]})

    [unit] = result.units
    assert (result.outcome.cause, unit.stdout.text()) == (Cause.EXITED_NONZERO, "hi-\n")
    assert "Read-only file system" in unit.stderr.text()
    assert await check_isolation(sandbox, plain) == []
    for program in [one for one in PROGRAMS if one.family in QUICK][:6]:
        assert await ends_as(sandbox, program, plain) == (program.name, program.cause, set())


async def test_image_without_python_brings_evidence_and_outputs(sandbox: Sandbox, plain: str) -> None:
    good, _ = await submit(
        sandbox, plain, {"argv": ["bash", "-c", "sort >out.txt"], "stdin": "b\na\n", "collect": ["out.txt"]}
    )
    missing, judged = await submit(sandbox, plain, {"argv": ["python3", "-c", "1"]})

    assert [(one.name, one.content) for one in good.outputs] == [("out.txt", b"a\nb\n")]
    assert missing.outcome.evidence["executed"] is False
    assert "Image plain has bash." in str(judged.stage_findings["sandbox"])


async def test_image_that_changed_after_it_was_adopted_is_not_built_again(place: Path, plain: str) -> None:
    archive = place / "changed.tar"
    write_docker_archive(archive, [files({"a": b""})])
    recipes = place / "images.d"
    (recipes / "changed.toml").write_text(f'from = "{archive}"\n')
    (recipes / "changed.lock").write_text((recipes / f"{plain}.lock").read_text())

    with pytest.raises(ConfigError) as raised:
        await asyncio.to_thread(cli_images.build_images, ["changed"], place / "cache")

    assert raised.value.code == "image.source_differs"
    (recipes / "changed.toml").unlink()


async def test_refused_image_leaves_no_recipe_behind(place: Path) -> None:
    bad = files({"var/run/docker.sock": b""})
    source = write_docker_archive(place / "bad.tar", [bad])

    with pytest.raises(ConfigError) as raised:
        await asyncio.to_thread(adopt, place, "bad", source)

    assert raised.value.code == "image.source_refused"
    assert list((place / "images.d").glob("bad.*")) == []


async def test_list_and_removal_tell_who_uses_an_image(sandbox: Sandbox, plain: str) -> None:
    await sandbox.images.get(plain)

    [row] = [row for row in await asyncio.to_thread(cli_images.list_images) if row[0] == plain]
    found = await asyncio.to_thread(cli_images.remove_unused, dry_run=True)
    kept = await asyncio.to_thread(cli_images.remove_unused, dry_run=False)

    assert (row[4], row[5]) == ("now", "nobody") or row[4].endswith("min")
    assert [(one[0], one[2]) for one in found] == [(plain, "would be removed")]
    assert kept[0][2].startswith("kept: image assayd/plain is used by a daemon")


@pytest.fixture(scope="module", params=["bullseye", "trixie"])
def debian(request: pytest.FixtureRequest, place: Path) -> str:
    suite = str(request.param)
    root = debian_root(suite, ["python3"], place / f"{suite}.tar")
    adopt(place, suite, write_docker_archive(place / f"{suite}-image.tar", [root, EXTRAS]))
    return suite


@pytest.mark.system
async def test_python_of_an_image_decides_as_ours_does(sandbox: Sandbox, debian: str) -> None:
    for text, cause in (
        (RIGHT, Cause.COMPLETED),
        (WRONG, Cause.EXITED_NONZERO),
        ("held = [b'x' * 2**20 for _ in range(2000)]", Cause.OUT_OF_MEMORY),
        ("open('x', 'wb').write(bytes(2**26))", Cause.DISK_LIMIT),
    ):
        payload = {"files": {"main.py": text}, "argv": ["python3", "main.py"]}
        result, _ = await submit(sandbox, debian, payload)
        assert result.outcome.cause is cause, result.units[0].stderr.text()


@pytest.mark.system
async def test_hostile_programs_end_in_it_as_they_do_elsewhere(sandbox: Sandbox, debian: str) -> None:
    assert await check_isolation(sandbox, debian) == []
    # Some start our own Python by its path; deep recursion ends otherwise in Python 3.13.
    tried = [one for one in PROGRAMS if one.family in HELD and "/usr/bin/python3.11" not in one.source]
    tried = [one for one in tried if one.name != "signals/stack_overflow"]
    found = [await ends_as(sandbox, program, debian) for program in tried]
    assert found == [(program.name, program.cause, set()) for program in tried]


@pytest.mark.system
@pytest.mark.parametrize("debian", ["trixie"], indirect=True)
async def test_code_runs_in_the_images_own_python(sandbox: Sandbox, debian: str) -> None:
    code = "import sys\nresult: str = sys.version.split()[0]\nprint(type(3))\n"

    result, judged = await submit(sandbox, debian, {"code": code, "inputs": {}}, kind="code", policy="code")

    assert result.outcome.cause is Cause.COMPLETED, judged
    assert b'"3.13.' in result.units[0].results[0]
    assert result.container.python == "3.13.5"
