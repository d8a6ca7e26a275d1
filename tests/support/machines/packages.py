"""The wheel and the Debian package of this checkout, built once per content below .run/cache."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".run/cache"

SOURCE_ONLY = ("sdnotify",)
"""Packages that are published as source alone."""
BUILD_WITH = ("pip", "setuptools", "wheel")
"""What pip makes wheels of them with, and what pipx installs first."""


def build_wheel(folder: Path) -> Path:
    """Build the wheel reproducibly."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def build_deb(wheel: Path, cache: Path) -> Path:
    """Build the Debian package, or return the one that was built from the same files."""
    folder = cache / _digest(wheel)[:16]
    found = next(iter(folder.glob("*.deb")), None)
    if found is not None:
        return found
    new = cache / "new"
    command = [ROOT / "deploy/debian/build.sh", wheel, new]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    new.rename(folder)
    return next(iter(folder.glob("*.deb")))


def download_wheels(cache: Path, lock_name: str = "run") -> Path:
    """Download the locked packages of an installation or an extra; return their folder."""
    lock = ROOT / f"requirements/{lock_name}.txt"
    folder = cache / hashlib.sha256(lock.read_bytes() + repr(BUILD_WITH).encode()).hexdigest()[:16]
    if not folder.exists():
        new = cache / "new"
        pip = [sys.executable, "-m", "pip", "-qq", "download", "--dest", new]
        binary = ["--only-binary=:all:", f"--no-binary={','.join(SOURCE_ONLY)}"]
        subprocess.run([*pip, *binary, "--no-deps", "--require-hashes", "-r", lock], check=True, timeout=1800)
        subprocess.run([*pip, "--only-binary=:all:", *BUILD_WITH], check=True, timeout=600)
        new.rename(folder)
    return folder


def next_version(deb: Path, work: Path) -> Path:
    """Build a package of the same files with the next version."""
    subprocess.run(["dpkg-deb", "--raw-extract", deb, work / "next"], check=True, timeout=300)
    control = work / "next/DEBIAN/control"
    control.write_text(re.sub(r"^(Version: .*)-\d+$", r"\g<1>-99", control.read_text(), flags=re.MULTILINE))
    target = work / "next.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", work / "next", target]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    return target


def _digest(wheel: Path) -> str:
    """Return a digest of everything that goes into the package."""
    files = [path for path in (ROOT / "deploy").rglob("*") if path.is_file() and "dev" not in path.parts]
    files += [*(ROOT / "docs/operating").glob("*.md"), ROOT / "CHANGELOG.md", ROOT / "requirements/run.txt"]
    digest = hashlib.sha256(wheel.read_bytes())
    for path in sorted(files):
        digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()
