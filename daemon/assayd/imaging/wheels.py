"""Locks and installs a recipe's wheels: pip selects them once, and builds use exactly the locked wheels.

Because only wheels are used, no package code runs during a build or an installation. pip's configuration
selects the index.
"""

import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from assayd.errors import ConfigError
from assayd.imaging.command import run_command
from assayd.imaging.tree import compute_digest, compute_file_digest, resolve_in_root

SITE = "usr/lib/assayd/site-packages"
"""The folder of a recipe's wheels in its image."""

_MIN_GLIBC_MINOR = 5
_TIMEOUT_S = 1800
_REQUIRED = "# required: "
_MISMATCH_PATTERN = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._-]*==[^\s]+) from .*Expected sha256 ([0-9a-f]+).*Got +([0-9a-f]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelLock:
    """A lock file next to its recipe; empty if the file doesn't exist yet."""

    path: Path
    source: bytes


def read_lock(path: Path) -> WheelLock:
    """Read a lock file. Return an empty lock if the file doesn't exist."""
    return WheelLock(path=path, source=path.read_bytes() if path.is_file() else b"")


def lock_wheels(required: Sequence[str], python: str, path: Path) -> int:
    """Select the wheels for a recipe's requirements with pip, write the lock, and return their number.

    Raises: ConfigError ``image.wheels_failed``, with pip's message, if pip fails.
    """
    with tempfile.TemporaryDirectory(prefix="assayd-lock-") as folder:
        _run_pip("download", *_build_pip_wheel_options(python), "--dest", folder, *required)
        wheels = sorted(Path(folder).glob("*.whl"))
        lines = [line for wheel in wheels for line in _format_lock_lines(wheel)]
    here = f"CPython {python} on {platform.machine()} with glibc {_get_glibc_minor_version()}"
    head = [
        f"# Wheels for {here}; written by `assay images lock {path.stem}`.",
        _REQUIRED + _compute_requirements_digest(required),
    ]
    path.write_text("\n".join([*head, *lines]) + "\n")
    return len(wheels)


def install_wheels(lock: WheelLock, required: Sequence[str], python: str, root: Path) -> None:
    """Unpack the wheels of a lock into their folder below `root`. Check each wheel against the lock.

    Raises: ConfigError ``image.lock_missing``; ``image.lock_outdated``, if the lock is for other
    requirements; ``image.wheel_differs``, if a wheel has another digest; ``image.wheels_failed``, if pip
    fails.
    """
    _require_current(lock, required)
    site = resolve_in_root(root, SITE)
    options = ["--no-deps", "--require-hashes", "--no-compile", "--target", str(site)]
    try:
        _run_pip("install", *_build_pip_wheel_options(python), *options, "--requirement", str(lock.path))
    except ConfigError as error:
        found = _MISMATCH_PATTERN.search(error.message)
        if found is None:
            raise
        message = (
            f"{lock.path}: {found[1]} differs from the locked wheel: sha256 {found[2]} was expected, "
            f"{found[3]} was found; find out who changed it before you lock it again"
        )
        raise ConfigError("image.wheel_differs", message) from error
    shutil.rmtree(site / "bin", ignore_errors=True)


def _require_current(lock: WheelLock, required: Sequence[str]) -> None:
    remedy = f"run: assay images lock {lock.path.stem}"
    if not lock.source:
        raise ConfigError("image.lock_missing", f"{lock.path} does not exist; {remedy}")
    if f"{_REQUIRED}{_compute_requirements_digest(required)}\n" not in lock.source.decode("utf-8", "replace"):
        message = f"{lock.path} was written for other python_packages than the recipe has now; {remedy}"
        raise ConfigError("image.lock_outdated", message)


def _format_lock_lines(wheel: Path) -> tuple[str, str]:
    name, version = wheel.name.split("-")[:2]
    return f"{name.replace('_', '-').lower()}=={version} \\", f"    --hash={compute_file_digest(wheel)}"


def _compute_requirements_digest(required: Sequence[str]) -> str:
    return compute_digest((text, b"") for text in sorted(required))


def _build_pip_wheel_options(python: str) -> list[str]:
    """Return the pip options that select wheels for an image's interpreter."""
    machine = platform.machine()
    tags = [
        f"manylinux_2_{minor}_{machine}"
        for minor in range(_get_glibc_minor_version(), _MIN_GLIBC_MINOR - 1, -1)
    ]
    tags += [f"manylinux2014_{machine}", f"linux_{machine}"]
    options = [word for tag in tags for word in ("--platform", tag)]
    return ["--only-binary=:all:", "--implementation", "cp", "--python-version", python, *options]


def _get_glibc_minor_version() -> int:
    """Return the minor version of this machine's C library, which equals the image's.

    Raises: ConfigError ``image.tool_missing``, if this machine doesn't use glibc.
    """
    minor = platform.libc_ver()[1].partition(".")[2]
    if not minor.isdigit():
        raise ConfigError(
            "image.tool_missing", "images with python_packages must be built on a machine with glibc"
        )
    return int(minor)


def _run_pip(*arguments: str) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-python-version-warning"]
    run_command([*_find_pip(), *quiet, *arguments], code="image.wheels_failed", timeout_s=_TIMEOUT_S)


def _find_pip() -> list[str]:
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if program := shutil.which("pip3"):
        return [program]
    message = "python_packages need pip; Debian: apt-get install python3-pip"
    raise ConfigError("image.tool_missing", message)
