"""Finds the interpreters of an adopted image; adds one to an image without a suitable Python.

This module executes nothing of an adopted image, and follows no link out of the image's root.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from assayd.errors import ConfigError
from assayd.imaging.paths import find_matching, resolve_in_root
from assayd.imaging.recipe import Recipe

HOME = ".assayd"
"""The top folder of an adopted image for assayd's own files. The image has no files in it."""
GUEST_FILE = f"{HOME}/guest.pyc"
OLDEST, NEWEST = 11, 13
"""The minor versions of Python that can run the guest code."""

_OWN = f"{HOME}/python"
_NAME = re.compile(r"python3\.([0-9]{1,2})", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9._+/-]+", re.ASCII)
_KNOWN = (
    "awk", "bash", "cc", "clang", "dash", "deno", "gcc", "go", "guile", "java", "julia", "lua", "node",
    "perl", "php", "R", "ruby", "rustc", "sh", "tcc", "tclsh",
)  # fmt: skip
"""Programs that a hint can name if an image has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePython:
    """A Python of an image. `path` is its executable; `libraries` lists folders with additional modules."""

    path: str
    minor: int
    libraries: Sequence[str]

    @property
    def is_compatible(self) -> bool:
        """Return whether the guest code runs on this Python."""
        return OLDEST <= self.minor <= NEWEST


def find_pythons(root: Path, folders: Sequence[str]) -> list[ImagePython]:
    """Return the Pythons of a root filesystem, beginning with the target of ``python3``."""
    names = ["python3", "python", *(f"python3.{minor}" for minor in range(NEWEST, OLDEST - 1, -1))]
    places = ((folder.strip("/"), name) for name in names for folder in folders)
    found: dict[str, ImagePython] = {}
    for folder, name in places:
        one = _find_python(root, folder, name)
        if one is not None:
            found.setdefault(one.path, one)
    return list(found.values())


def find_known_programs(root: Path, folders: Sequence[str], pythons: Sequence[ImagePython]) -> list[str]:
    """Return the names of the well-known programs that a root filesystem contains."""
    named = [PurePosixPath(one.path).name for one in pythons]
    return named + [name for name in _KNOWN if any(_is_program(root, folder, name) for folder in folders)]


def copy_interpreter(system: Path, recipe: Recipe, root: Path) -> None:
    """Copy a built image's interpreter with its standard library and linked libraries into `root`.

    A copied dynamic loader starts the interpreter (`build_start_command`), so that it uses no libraries
    of the image.
    """
    for folder in ("bin", "lib"):
        (root / _OWN / folder).mkdir(parents=True)
    program = f"python{recipe.python}"
    shutil.copy(resolve_in_root(system, f"usr/bin/{program}"), root / _OWN / "bin" / program)
    shutil.copytree(system / recipe.library, root / _OWN / "lib" / program, symlinks=True)
    for path in find_matching(system, "usr/lib/*/*.so*"):
        target = resolve_in_root(system, path.relative_to(system))
        if target.is_file():
            shutil.copy(target, root / _OWN / "lib" / path.name)


def build_start_command(system: Path, recipe: Recipe) -> list[str]:
    """Return the command that starts the copied interpreter.

    Raises: ConfigError ``image.python_broken``.
    """
    loader = next(iter(find_matching(system, "usr/lib/*/ld-linux*.so*")), None)
    if loader is None:
        raise ConfigError("image.python_broken", f"image {recipe.name!r} has no dynamic loader")
    libraries = f"/{_OWN}/lib"
    start = [f"{libraries}/{loader.name}", "--inhibit-cache", "--library-path", libraries]
    return [*start, f"/{_OWN}/bin/python{recipe.python}", "-I", "-S"]


def _is_program(root: Path, folder: str, name: str) -> bool:
    path = resolve_in_root(root, f"{folder.strip('/')}/{name}")
    return path.is_file() and bool(path.stat().st_mode & 0o100)


def _find_python(root: Path, folder: str, name: str) -> ImagePython | None:
    """Return the Python that a name in a folder refers to, if its library exists."""
    if not _is_program(root, folder, name):
        return None
    program = resolve_in_root(root, f"{folder}/{name}")
    path = program.relative_to(root)
    prefix = path.parent.parent
    minors = (
        [match[1]] if (match := _NAME.fullmatch(program.name)) else list(_find_minor_versions(root, prefix))
    )
    if len(minors) != 1 or not _PLAIN.fullmatch(path.as_posix()):
        return None
    if not resolve_in_root(root, prefix / f"lib/python3.{minors[0]}/os.py").is_file():
        return None
    prefixes = dict.fromkeys([PurePosixPath(folder).parent.as_posix(), prefix.as_posix()])
    return ImagePython(
        path=path.as_posix(),
        minor=int(minors[0]),
        libraries=[one for each in prefixes for one in _find_libraries(root, each, minors[0])],
    )


def _find_minor_versions(root: Path, prefix: Path) -> Iterator[str]:
    for library in find_matching(root, f"{prefix.as_posix()}/lib/python3.*"):
        if match := _NAME.fullmatch(library.name):
            yield match[1]


def _find_libraries(root: Path, prefix: str, minor: str) -> Iterator[str]:
    """Yield the package folders in the locations that CPython and Debian use."""
    for place in (
        f"local/lib/python3.{minor}/dist-packages",
        f"lib/python3.{minor}/site-packages",
        "lib/python3/dist-packages",
        f"lib/python3.{minor}/dist-packages",
    ):
        folder = f"{prefix}/{place}".removeprefix("./")
        if _PLAIN.fullmatch(folder) and resolve_in_root(root, folder).is_dir():
            yield folder
