"""The locked packages: an installation's are part of a checkout's, and all have hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXTRAS = ("anthropic.txt", "cluster.txt", "gemini.txt", "lsp.txt", "mcp.txt", "openai.txt")


def locked(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+) \\$", text, re.MULTILINE))


def test_installation_has_the_versions_of_the_checkout() -> None:
    run, dev = locked("run.txt"), locked("dev.txt")
    assert {name: dev.get(name) for name in run} == run, "locked apart: make requirements"


def test_build_of_a_checkout_has_the_versions_of_its_tests() -> None:
    build, dev = locked("build.txt"), locked("dev.txt")
    assert {name: dev.get(name) for name in build} == build, "locked apart: make requirements"
    assert {"hatchling", "editables"} <= build.keys()


@pytest.mark.parametrize("name", EXTRAS)
def test_extra_has_the_versions_of_the_checkout_and_all_of_an_installation(name: str) -> None:
    extra, dev = locked(name), locked("dev.txt")
    assert {each: dev.get(each) for each in extra} == extra, "locked apart: make requirements"
    assert locked("run.txt").items() < extra.items()


def test_every_dependency_is_locked_for_an_installation() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.split(r"[\[<>=!~ ]", line)[0].lower().replace("_", "-") for line in project["dependencies"]}
    assert wanted - locked("run.txt").keys() == set(), "not locked: make requirements"


def test_locks_name_no_place() -> None:
    for name in ("run.txt", "dev.txt", "build.txt", "generator.txt", *EXTRAS):
        assert not re.search(r"https?://|^-|file:/", (ROOT / "requirements" / name).read_text(), re.MULTILINE)
