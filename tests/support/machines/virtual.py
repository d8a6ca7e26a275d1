"""Runs this checkout's tests in a virtual machine with cgroup v2. Root only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from assayd.engines.oci.images import ImageStore

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".run/cache"
SOURCES = ("daemon", "deploy", "docs", "examples", "images", "policies", "tests", "pyproject.toml")
TESTED_WITH = (
    *("assayd[cluster]", "pytest", "pytest-asyncio", "pytest-xdist", "hypothesis", "testcontainers"),
)
"""The suites' own fixtures import what a cluster needs."""
PYTHON_OF_THE_MACHINE = (3, 11)


def lay_out(folder: Path, main: str, images: Sequence[str], tests: Sequence[str]) -> None:
    """Put sources, libraries and unpacked images into a folder, with the bytecode of all of them.

    Args:
        main: the script to run.
        images: names of those that the tests need.
        tests: files below the checkout that will be run.
    """
    assert sys.version_info[:2] == PYTHON_OF_THE_MACHINE, "compiled libraries are taken from this Python"
    for name in SOURCES:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, folder / name)
    for one in _with_requirements(TESTED_WITH):
        for file in one.files or ():
            source = Path(str(one.locate_file(file)))
            if source.is_file():
                installed = file if ".." not in file.parts else f"bin/{file.name}"
                target = folder / "site" / installed
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
    (folder / "main.sh").write_text(main, encoding="utf-8")
    _compile(folder, tests)
    store = ImageStore(folder / "images-unpacked")
    for name in images:
        store.load(CACHE / "images" / name / "image.tar")
    store.close()


def run(folder: Path, timeout_s: int) -> subprocess.CompletedProcess[str]:
    """Boot a machine, run `main.sh` of the folder in it, and return its exit code and output."""
    command = ["nice", "-n", "15", ROOT / "deploy/dev/vm.sh", CACHE / "vm", folder, str(timeout_s)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)


def _compile(folder: Path, tests: Sequence[str]) -> None:
    """Write the bytecode that the machine would take minutes for: pytest's of the tests, and all other.

    Nothing but the folder is seen meanwhile, so that what it lacks is missed here.
    """
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = f"{folder / 'daemon'}:{folder / 'site'}"
    collect = ["-m", "pytest", "-c", "pyproject.toml", "-p", "no:cacheprovider", "-q", "--collect-only"]
    steps = [["-m", "compileall", "-q", "daemon", "site"]]
    if tests:
        steps.append([*collect, *tests])
    for arguments in steps:
        subprocess.run(
            [sys.executable, "-S", *arguments],
            cwd=folder,
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )


def _with_requirements(names: Sequence[str]) -> Iterator[Distribution]:
    waiting = [Requirement(name) for name in names]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        key = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key in seen:
            continue
        seen.add(key)
        found = distribution(wanted.name)
        yield found
        for text in found.requires or ():
            needed = Requirement(text)
            extras = ("", *wanted.extras)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)
