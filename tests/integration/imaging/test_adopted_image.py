"""Adopted images: Debian with another Python, an older one, and none; and one of the project's own."""

from __future__ import annotations

import asyncio
import io
import json
import os
import tarfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO

import docker
import pytest
import pytest_asyncio

from assayd.audit import AuditLog
from assayd.documents import canonical
from assayd.errors import ConfigError
from assayd.kinds import registry
from assayd.model import audit_chain
from assayd.model.report import Judgement
from assayd.model.run import Cause, Limits, RunResult, derive_attempt_limits
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd.sandbox.isolation_check import check_isolation
from assayd.sandbox.sandbox import Sandbox
from assayd_client.cli import images as cli_images
from support.engines.foreign_images import (
    debian_root,
    files,
    layer,
    member,
    write_docker_archive,
    write_oci_layout,
)
from support.engines.oci import ROOT, made_engine, needs_oci, oci_engine
from support.engines.sandboxes import run, sandbox_on
from support.guests.hostile_elsewhere import elsewhere, wrongly_ended
from support.guests.hostile_program import read_programs
from support.texts.checked_functions import CHECKED_FUNCTIONS

pytestmark = pytest.mark.asyncio(loop_scope="module")

CACHE = ROOT / ".run/cache/images"

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
OTHERWISE = {"signals/stack_overflow", "resources/memory_in_pipes"}
"""Deep recursion in Python 3.13 is an error; pipes hold less than the limit and a larger baseline."""
HELD = {"kernel", "proc", "sockets", "signals", "resources"}
QUICK = {"kernel", "proc"}
ONLY_OCI = pytest.mark.parametrize("kind", [pytest.param("oci-templates", marks=needs_oci)], indirect=True)
"""For what an engine in use by others must not be asked, does not tell, or has no part in."""
PROGRAMS = read_programs(ROOT / "tests/escape/programs")


@pytest.fixture(
    scope="module",
    params=[  # in this order: pytest takes tests with the same place in their lists to share fixtures
        pytest.param("oci-templates", marks=needs_oci),
        pytest.param("docker", marks=pytest.mark.engine),
    ],
)
def kind(request: pytest.FixtureRequest) -> str:
    """Return the engine's name; the OCI engine gets its own store, which is removed afterwards."""
    return str(request.param)


@pytest.fixture(scope="module")
def place(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Set the environment variables that tell builds where recipes and images are."""
    folder = tmp_path_factory.mktemp("adopted")
    patch = pytest.MonkeyPatch()
    patch.setenv("ASSAYD_IMAGES__RECIPES_DIR", str(folder / "images.d"))
    patch.setenv("ASSAYD_ENGINE__KIND", kind.removesuffix("-templates"))
    patch.setenv("ASSAYD_ENGINE__IMAGES_DIR", str(folder / "store"))
    patch.setenv("ASSAYD_STATE_DIR", str(folder / "state"))
    AuditLog(folder / "state/audit").note("daemon.started", actor={"daemon": "01D"}, subject="1")
    if kind == "docker":
        patch.setenv("ASSAYD_ENGINE__URL", request.getfixturevalue("docker_host"))
    yield folder
    patch.undo()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(kind: str, place: Path, request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    docker = kind == "docker"
    engine = made_engine(request, kind) if docker else oci_engine(place / "store", templates=True)
    try:
        async with sandbox_on(engine) as made:
            yield made
        for name in (path.stem for path in (place / "images.d").glob("*.lock")) if docker else ():
            await engine.remove_image(f"assayd/{name}")
    finally:
        await engine.close()


def adopt(name: str, source: Path | str) -> None:
    """Adopt an image like the command, with the usual cache for the parts of our interpreter."""
    cli_images.adopt_image(name, str(source), cache=CACHE)


def shell_without_python() -> bytes:
    """Return the files of our image `shell` without Python, as a layer."""
    target = io.BytesIO()
    with tarfile.open(CACHE / "shell/image.tar") as image, tarfile.open(fileobj=target, mode="w") as made:
        [said] = json.loads(_content(image, "manifest.json").read())
        with tarfile.open(fileobj=_content(image, said["Layers"][0])) as files:
            for one in files:
                if "python" not in one.name:
                    made.addfile(one, files.extractfile(one) if one.isreg() else None)
    return target.getvalue()


def _content(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    found = tar.extractfile(name)
    assert found is not None
    return found


async def submit(
    sandbox: Sandbox, image: str, payload: dict[str, object], *, kind: str = "script", policy: str = "shell"
) -> tuple[RunResult, Judgement]:
    validator = registry.find_validator(kind)
    profile = replace(load_policies([get_shared_data_path("policies")]).get(policy), image=image)
    read = validator.prepare(validator.payload.model_validate_json(canonical(payload)))
    spec = validator.plan(read, profile, derive_attempt_limits(profile, CAPS))
    assert spec is not None
    result = await run(sandbox, spec)
    return result, validator.judge(read, profile, result)


def _harmless(said: str) -> bool:
    """Return whether everything that a program saw belongs to the image."""
    return said in SEEN or said.startswith(ITS_OWN_PROGRAMS)


@pytest.fixture(scope="module")
def plain(kind: str, place: Path) -> str:
    layers = [shell_without_python(), EXTRAS]
    source = write_oci_layout(place / "plain", layers, environment=ENVIRONMENT)
    if kind == "docker":  # where measuring is dear, and done of the others
        (place / "images.d").mkdir()
        (place / "images.d/plain.toml").write_text(f'from = "{source}"\nbaseline_mb = 64\n')
    adopt("plain", source)
    return "plain"


async def test_image_without_python_runs_its_programs_within_all_walls(sandbox: Sandbox, plain: str) -> None:
    told = "echo $GREETING-$LD_PRELOAD; test ! -e /usr/bin/su; test ! -e /dev/mem; echo x >/x"
    result, _ = await submit(sandbox, plain, {"argv": ["bash", "-c", told]})

    [unit] = result.units
    assert (result.outcome.cause, unit.stdout.text()) == (Cause.EXITED_NONZERO, "hi-\n")
    assert "Read-only file system" in unit.stderr.text()
    assert await check_isolation(sandbox, plain) == []
    quick = [one for one in PROGRAMS if one.family in QUICK][:6]
    assert await wrongly_ended(sandbox, plain, quick, harmless=_harmless, python="python3") == []


async def test_image_without_python_brings_evidence_and_outputs(sandbox: Sandbox, plain: str) -> None:
    good, _ = await submit(
        sandbox, plain, {"argv": ["bash", "-c", "sort >out.txt"], "stdin": "b\na\n", "collect": ["out.txt"]}
    )
    missing, judged = await submit(sandbox, plain, {"argv": ["python3", "-c", "1"]})

    assert [(one.name, one.content) for one in good.outputs] == [("out.txt", b"a\nb\n")]
    assert missing.outcome.evidence["executed"] is False
    assert "Image plain has bash." in str(judged.stage_findings["sandbox"])


@ONLY_OCI
async def test_adoption_is_in_the_audit_log_with_its_user_and_the_digest(place: Path, plain: str) -> None:
    lines = list(AuditLog(place / "state/audit").read())

    adopted = [json.loads(line) for line in lines if b"image.adopted" in line]
    [entry] = [each for each in adopted if each["subject"] == plain]
    assert entry["actor"]["uid"] == os.getuid()
    assert entry["digest"] in (place / f"images.d/{plain}.lock").read_text()
    assert audit_chain.verify_chain(lines).lines == 1 + len(adopted)


async def test_bill_of_materials_of_an_adopted_image_is_written_anew(sandbox: Sandbox, plain: str) -> None:
    await sandbox.images.get(plain)

    document = json.loads(await asyncio.to_thread(cli_images.build_sbom, plain))

    assert document["metadata"]["component"]["name"] == "assayd/plain"
    assert [each["purl"] for each in document.get("components", [])] == []


@ONLY_OCI
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
        await asyncio.to_thread(adopt, "bad", source)

    assert raised.value.code == "image.source_refused"
    assert list((place / "images.d").glob("bad.*")) == []


@ONLY_OCI
async def test_list_and_removal_tell_who_uses_an_image(sandbox: Sandbox, plain: str) -> None:
    await sandbox.images.get(plain)

    [row] = [row for row in await asyncio.to_thread(cli_images.list_images) if row[0] == plain]
    found = await asyncio.to_thread(cli_images.remove_unused_images, dry_run=True)
    kept = await asyncio.to_thread(cli_images.remove_unused_images, dry_run=False)

    assert (row[4], row[5]) == ("now", "nobody") or row[4].endswith("min")
    [would] = [one[2] for one in found if one[0] == plain]
    assert would.startswith("would be removed, unless")
    [said] = [one[2] for one in kept if one[0] == plain]
    assert said.startswith("kept: image assayd/plain is used by a daemon")


@pytest.fixture(scope="module", params=["bullseye", "trixie"])
def debian(request: pytest.FixtureRequest, place: Path) -> str:
    suite = str(request.param)
    root = debian_root(suite, ["python3"], place / f"{suite}.tar")
    adopt(suite, write_docker_archive(place / f"{suite}-image.tar", [root, EXTRAS]))
    return suite


@pytest.mark.system
async def test_measured_image_is_the_only_one_that_is_left(sandbox: Sandbox, debian: str, kind: str) -> None:
    measured = (await sandbox.images.get(debian)).labels["org.assayd.baseline-bytes"]
    there = await asyncio.to_thread(cli_images.list_images)
    untagged = {"dangling": True, "label": f"org.assayd.image={debian}"}

    assert int(measured) >= 32 * 2**20
    assert [row[0] for row in there if row[0].startswith(debian)] == [debian]
    assert kind != "docker" or docker.APIClient().images(filters=untagged) == []


@pytest.mark.system
async def test_python_of_an_image_decides_as_ours_does(sandbox: Sandbox, debian: str) -> None:
    ends = {Cause.COMPLETED: "text", Cause.EXITED_NONZERO: "wrong"}
    cases = [(getattr(one, which), cause) for one in CHECKED_FUNCTIONS for cause, which in ends.items()]
    for text, cause in (
        *cases,
        ("held = [b'x' * 2**20 for _ in range(2000)]", Cause.OUT_OF_MEMORY),
        ("open('x', 'wb').write(bytes(2**26))", Cause.DISK_LIMIT),
    ):
        payload = {"files": {"main.py": text}, "argv": ["python3", "main.py"]}
        result, _ = await submit(sandbox, debian, payload)
        assert result.outcome.cause is cause, (text, result.units[0].stderr.text())


@pytest.mark.system
async def test_hostile_programs_end_in_it_as_they_do_elsewhere(
    sandbox: Sandbox, debian: str, kind: str
) -> None:
    assert await check_isolation(sandbox, debian) == []
    # On Docker, where a container is dear, the families that depend on the image most.
    whole = kind != "docker"
    tried = [one for one in elsewhere(PROGRAMS, ours=False) if whole or one.family in HELD]
    tried = [one for one in tried if one.name not in OTHERWISE]
    found = await wrongly_ended(sandbox, debian, tried, harmless=_harmless, python="python3")
    assert found == []


@pytest.mark.system
@pytest.mark.parametrize("debian", ["trixie"], indirect=True)
async def test_code_runs_in_the_images_own_python(sandbox: Sandbox, debian: str) -> None:
    code = "import sys\nresult: str = sys.version.split()[0]\nprint(type(3))\n"

    result, judged = await submit(sandbox, debian, {"code": code, "inputs": {}}, kind="code", policy="code")

    assert result.outcome.cause is Cause.COMPLETED, judged
    assert b'"3.13.' in result.units[0].results[0]
    assert result.container.python == "3.13.5"
