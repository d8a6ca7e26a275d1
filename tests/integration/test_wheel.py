"""The wheel contains all non-code files that the program needs, and the installed program finds them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED = {"images": ROOT / "images", "policies": ROOT / "policies", "seccomp": ROOT / "deploy/seccomp"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and unpack it like an installation."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


@pytest.mark.parametrize("name", SHARED)
def test_shared_files_are_in_the_wheel(installed: Path, name: str) -> None:
    source, target = SHARED[name], installed / "assayd/_share" / name

    expected = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    assert {path.relative_to(target) for path in target.rglob("*") if path.is_file()} == expected


def test_package_in_the_wheel_is_the_package_in_the_checkout(installed: Path) -> None:
    code = ROOT / "daemon/assayd"

    expected = {path.relative_to(code) for path in code.rglob("*.py")}
    found = {path.relative_to(installed / "assayd") for path in (installed / "assayd").rglob("*.py")}
    assert found == expected


def test_installed_package_finds_its_shared_files(installed: Path) -> None:
    program = "from assayd.package_data import get_shared_data_path; print(get_shared_data_path('policies'))"
    # Before the checkout, which an editable installation puts at the path's end.
    environment = {"PYTHONPATH": str(installed)}

    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)

    assert Path(done.stdout.strip()) == installed / "assayd/_share/policies"
