"""Make targets that no other test needs, in a copy of the checkout, with as little work as possible.

tests/unit/docs/test_commands.py sees to it that each target is here, or run by another test.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from assayd_client import ClientError, DaemonUnreachable, PlainClient
from assayd_client.cli.parts import PARTS
from support.engines.oci import ROOT, needs_oci

pytestmark = needs_oci

READY_WITHIN_S = 120.0
PAGES_ON = "http://127.0.0.1:8000/"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the files that git knows, with the environment and the images of this checkout.

    Its stamps are new, so that no target installs the copy into the environment.
    """
    copy = tmp_path_factory.mktemp("checkout")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\n")  # fmt: skip
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    for part in (ROOT / ".venv").iterdir():
        (copy / ".venv").mkdir(exist_ok=True)
        (copy / ".venv" / part.name).symlink_to(part)
    for stamp in (".ready", ".runs"):
        (copy / ".venv" / stamp).unlink(missing_ok=True)
        (copy / ".venv" / stamp).touch()
    (copy / ".run").mkdir()
    for name in ("cache", "images"):
        (copy / ".run" / name).symlink_to(ROOT / ".run" / name)
    before = _installed()
    yield copy
    assert _installed() == before


def _installed() -> dict[Path, str]:
    """Return the folders from which the environment imports packages."""
    return {path: path.read_text() for path in (ROOT / ".venv/lib").glob("*/site-packages/*.pth")}


def make(checkout: Path, *words: str, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY")}
    done = subprocess.run(
        ["make", *words], cwd=checkout, env={**environment, **variables},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_help_names_every_target_that_has_one(checkout: Path) -> None:
    said = make(checkout, "help")

    described = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(described) == set(re.findall(r"^  make (\S+)", said, re.MULTILINE))


@pytest.mark.system  # it takes two minutes, and tests of the examples do the same
def test_run_validates_the_examples(checkout: Path) -> None:
    assert "examples got the expected verdict" in make(checkout, "run", "ENGINE=oci")


def test_serve_answers_until_a_signal(checkout: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY")}
    process = subprocess.Popen(
        ["make", "serve", "ENGINE=oci"], cwd=checkout, env=environment, start_new_session=True
    )
    try:
        socket = checkout / ".run/assayd.sock"
        answered = _happens(lambda: socket.exists() and b"assayd_build_info" in PlainClient(socket).metrics())
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)

    assert answered
    with pytest.raises(DaemonUnreachable):
        PlainClient(socket).metrics()


def test_docs_are_served(checkout: Path) -> None:
    process = subprocess.Popen(["make", "docs"], cwd=checkout, start_new_session=True)
    try:
        served = _happens(lambda: b"assayd" in urllib.request.urlopen(PAGES_ON, timeout=5).read())
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(60)

    assert served


def test_wheels_and_pages_are_written(checkout: Path) -> None:
    make(checkout, "client", "man")

    names = {path.name.partition("-")[0] for path in (checkout / "dist").glob("*.whl")}
    assert names == {"assayd_client", *(package for package, extra in PARTS.items() if extra)}
    assert "EXIT STATUS" in (checkout / "dist/man/assay.1").read_text()


def test_sample_of_the_settings_is_that_of_the_checkout(checkout: Path) -> None:
    make(checkout, "samples")

    name = "deploy/etc/assayd.toml"
    assert (checkout / name).read_text() == (ROOT / name).read_text()


def test_lock_can_be_written_again(checkout: Path) -> None:
    make(checkout, "requirements", "LOCKS=build")

    assert "hatchling==" in (checkout / "requirements/build.txt").read_text()


@pytest.mark.system  # it takes a minute
def test_soak(checkout: Path, docker_host: str) -> None:
    assert "lost or left: 0" in make(
        checkout, "soak", "MINUTES=0.1", "--old-file=images", DOCKER_HOST=docker_host
    )


@pytest.mark.system  # it restarts the engine, beside whatever else uses it
def test_day(checkout: Path, docker_host: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "bench/results", tmp_path / "results")
    (tmp_path / "pages/operating").mkdir(parents=True)
    places = {"BENCH_RESULTS": str(tmp_path / "results"), "BENCH_PAGES": str(tmp_path / "pages")}

    make(checkout, "day", "ITEMS=20", "--old-file=images", DOCKER_HOST=docker_host, **places)

    assert (tmp_path / "pages/operating/under-load.md").is_file()


def test_clean_removes_what_targets_made(checkout: Path) -> None:
    make(checkout, "cluster-stop")
    make(checkout, "clean", "VENV=.nowhere")

    assert not (checkout / ".run").exists()
    assert (ROOT / ".run/images").is_dir()
    assert (ROOT / ".venv").is_dir()


def _happens(happened: Callable[[], bool]) -> bool:
    """Return whether a condition holds within a daemon's start time."""
    end = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < end:
        with suppress(OSError, ClientError):
            if happened():
                return True
        time.sleep(0.2)
    return False
