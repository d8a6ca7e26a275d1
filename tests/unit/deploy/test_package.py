"""The Debian package's dependencies, and the extras that can be added to an installation."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
REQUIREMENTS = DEPLOY.parent / "requirements"
EXTRAS = ("anthropic", "cluster", "gemini", "lsp", "mcp", "openai", "otel")


def fields() -> dict[str, str]:
    lines = (DEPLOY / "debian/control.in").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if not line.startswith(" "))


def test_recommended_engines_are_those_that_the_daemon_takes() -> None:
    assert fields()["Recommends"].split(", ")[0].split(" | ") == ["docker.io", "docker-ce", "crun", "runc"]


def test_every_extra_can_be_added() -> None:
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS) == project["optional-dependencies"].keys() - {"dev"}
    placed = (DEPLOY / "install.sh").read_text()
    assert all(f"usr/share/assayd/requirements/{name}.txt" in placed for name in EXTRAS)


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a script that adds extras to an empty installation."""
    venv.create(tmp_path / "lib", with_pip=False)
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks/run.txt").write_text("none==1 \\\n")
    places = {"LIB": "lib", "ADDED": "added", "LOCKS": "locks"}
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        **{f"ASSAYD_{name}": str(tmp_path / place) for name, place in places.items()},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
    }


def extras(*words: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = ["bash", DEPLOY / "extras.sh", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def wheel(folder: Path) -> Path:
    """Build a wheel of one module with only the standard library."""
    import zipfile

    path = folder / "added_thing-1.0-py3-none-any.whl"
    info = "added_thing-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("added_thing.py", "VALUE = 1\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: added-thing\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def test_distribution_that_is_added_is_found_by_the_environment(installed, tmp_path: Path) -> None:
    done = extras("add", str(wheel(tmp_path)), environ=installed)

    assert done.returncode == 0, done.stderr
    assert extras("list", environ=installed).stdout == "added_thing 1.0\n"
    [site] = (tmp_path / "added/lib").glob("python3.*/site-packages")
    [own] = (tmp_path / "lib/lib").glob("python3.*/site-packages")
    (own / "assayd-extras.pth").write_text(f"{site}\n")
    program = [tmp_path / "lib/bin/python3", "-I", "-c", "import added_thing; print(added_thing.VALUE)"]
    assert subprocess.run(program, capture_output=True, text=True, check=True).stdout == "1\n"
    assert extras("remove", environ=installed).returncode == 0
    assert not (tmp_path / "added").exists()


def test_extra_that_there_is_not_is_refused_with_those_there_are(installed, tmp_path: Path) -> None:
    (tmp_path / "locks/openai.txt").write_text("")
    done = extras("install", "opnai", environ=installed)
    assert done.returncode == 1
    assert done.stderr == "assayd-extras: there is no extra 'opnai'; there are: openai\n"
