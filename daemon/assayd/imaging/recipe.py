"""The recipe of an image, parsed from `base.toml` and `<name>/image.toml`.

This module validates a recipe; its errors name the faulty key and file. The module `building` builds the
image.
"""

import re
import tomllib
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from assayd.errors import ConfigError
from assayd.imaging.digest import compute_digest
from assayd.imaging.wheels import WheelLock


@dataclass(frozen=True, slots=True)
class RecipeTable:
    """The top-level table of a recipe file. The value of a missing key is empty, false or None."""

    path: Path
    source: bytes
    values: dict[str, object]

    @classmethod
    def read(cls, path: Path, keys: Set[str]) -> "RecipeTable":
        """Parse the file `path`, which can contain only `keys`.

        Raises:
            ConfigError: ``image.recipe_invalid``, if the file is unreadable, isn't TOML, or contains
                another key.
        """
        try:
            source = path.read_bytes()
            values = tomllib.loads(source.decode())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError("image.recipe_invalid", f"{path}: {error}") from error
        table = cls(path, source, values)
        for key in values:
            if key not in keys:
                raise table.error(key, "isn't a key of a recipe")
        return table

    def error(self, key: str, problem: str) -> ConfigError:
        """Return an error about `key`."""
        return ConfigError("image.recipe_invalid", f"{self.path}: {key}: {problem}", field=key)

    def text(self, key: str) -> str | None:
        """Return a string, or None if missing. Raises: ConfigError."""
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.error(key, "must be a string")

    def get_flag(self, key: str) -> bool:
        """Return a boolean; false if missing. Raises: ConfigError."""
        value = self.values.get(key, False)
        if isinstance(value, bool):
            return value
        raise self.error(key, "must be true or false")

    def count(self, key: str) -> int | None:
        """Return a positive integer, or None if missing. Raises: ConfigError."""
        value = self.values.get(key)
        if value is None or (type(value) is int and value > 0):
            return value
        raise self.error(key, "must be an integer above 0")

    def get_texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings; empty if missing. Raises: ConfigError."""
        value = self.values.get(key, [])
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise self.error(key, "must be a list of strings")

    def get_pairs(self, key: str) -> dict[str, str]:
        """Return a table of strings; empty if missing. Raises: ConfigError."""
        value = self.values.get(key, {})
        if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
            return value
        raise self.error(key, "must be a table of strings")


RECIPE = "image.toml"
BASE = "base.toml"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]+")
_VERSION = re.compile(r"3\.[0-9]+")
_FOR_PROGRAMS = frozenset({"PATH", "LANG"})
_BASE_KEYS = {"packages", "executables", "drop", "links", "scripts", "environment"}
_KEYS = _BASE_KEYS | {
    "description",
    "python",
    "python_path",
    "guest",
    "ca_bundle",
    "entrypoint",
    "library",
    "baseline_mb",
    "offer",
    "preload",
    "on_demand",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionSource:
    """The foreign image on which an adopted image is based.

    `where` is the path of the image, or its name in a local engine. `tag` selects one of several images.
    `locked` is the digest of the image's configuration at the adoption, or None before the adoption.
    """

    where: str
    tag: str | None
    locked: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The recipe of one image, including the additions of `base.toml`."""

    name: str
    """Folder name; the image is named ``assayd/<name>``."""
    description: str
    packages: tuple[str, ...]
    """Packages of the distribution; apt adds their dependencies."""
    executables: tuple[str, ...]
    """The only programs to keep, as paths without the leading slash."""
    drop: tuple[str, ...]
    """Glob patterns of further files to remove."""
    links: tuple[tuple[str, str], ...]
    """Symbolic links to add: path, target."""
    scripts: tuple[tuple[str, str], ...]
    """Executable scripts to add: path, content."""
    environment: tuple[tuple[str, str], ...]
    python: str | None
    """Version ``3.N`` of the interpreter whose library is compiled; None for an image without Python."""
    python_path: tuple[str, ...]
    """Further library folders; compiled, and passed to the guest code as ASSAYD_PYTHON_PATH."""
    guest: bool
    """Whether the guest code is added to the interpreter's library."""
    ca_bundle: bool
    """Whether the certificates of the package ca-certificates are joined into one bundle."""
    entrypoint: tuple[str, ...]
    library_folder: str | None
    """The place for files of an operator's library folder; None if the image doesn't support one."""
    baseline_mb: int | None
    """Megabytes that its runner and libraries need before guest code runs, if more than usual."""
    offer: str
    """A description of its programs for hints."""
    preload: tuple[str, ...]
    """Modules that its runner preloads."""
    on_demand: bool
    """Whether it is built only if named."""
    digest: str
    """Digest of the bytes of all files that define it."""
    extends: str | None = None
    """The recipe that an operator's recipe extends; None for shipped recipes."""
    python_packages: tuple[str, ...] = ()
    """The requirements for which its wheels were chosen."""
    lock: WheelLock | None = None
    files: tuple[tuple[str, Path], ...] = ()
    """The operator's files: place in the image, path on the host."""
    source: AdoptionSource | None = None
    """The source of an adopted image; None for an image made from packages."""

    @property
    def is_measured(self) -> bool:
        """Return whether a build must measure the baseline because the recipe doesn't set it."""
        return bool(self.extends or self.preload or self.source)

    @property
    def constants(self) -> tuple[str, ...]:
        """Return the environment variables that also apply to submitted code."""
        return tuple(name for name, _ in self.environment if name not in _FOR_PROGRAMS)

    @property
    def library(self) -> str:
        """Return the interpreter's library folder; the image must contain Python."""
        return f"usr/lib/python{self.python}"


def load_recipe(recipes: Path, name: str, shipped: Path | None = None) -> Recipe:
    """Parse the recipe of a shipped image; `recipes.load` also finds the operator's recipes.

    `shipped` is the folder of `base.toml`; it is required if `recipes` belongs to another package.

    Raises:
        ConfigError: ``image.unknown`` (no such recipe) or ``image.recipe_invalid``.
    """
    path = recipes / name / RECIPE
    if not is_image_name(name) or not path.is_file():
        raise ConfigError("image.unknown", f"unknown image recipe {name!r}: {path} doesn't exist")
    base = RecipeTable.read((shipped or recipes) / BASE, _BASE_KEYS)
    own = RecipeTable.read(path, _KEYS)
    recipe = Recipe(
        name=name,
        description=own.text("description") or "",
        packages=_merge_lists("packages", base, own),
        executables=_merge_lists("executables", base, own),
        drop=_merge_lists("drop", base, own),
        links=tuple((base.get_pairs("links") | own.get_pairs("links")).items()),
        scripts=tuple((base.get_pairs("scripts") | own.get_pairs("scripts")).items()),
        environment=tuple(sorted((base.get_pairs("environment") | own.get_pairs("environment")).items())),
        python=own.text("python"),
        python_path=own.get_texts("python_path"),
        guest=own.get_flag("guest"),
        ca_bundle=own.get_flag("ca_bundle"),
        entrypoint=own.get_texts("entrypoint"),
        library_folder=own.text("library"),
        baseline_mb=own.count("baseline_mb"),
        offer=own.text("offer") or "",
        preload=own.get_texts("preload"),
        on_demand=own.get_flag("on_demand"),
        digest=compute_digest([(BASE, base.source), (RECIPE, own.source)]),
    )
    check_recipe(recipe, own)
    return recipe


def is_image_name(name: str) -> bool:
    """Return whether a string is a valid image name."""
    return _NAME.fullmatch(name) is not None


def _merge_lists(key: str, base: RecipeTable, own: RecipeTable) -> tuple[str, ...]:
    return tuple(dict.fromkeys(base.get_texts(key) + own.get_texts(key)))


def check_recipe(recipe: Recipe, table: RecipeTable) -> None:
    """Reject unusable values of the correct type. Raises: ConfigError ``image.recipe_invalid``."""
    for package in recipe.packages:
        if not _PACKAGE.fullmatch(package):
            raise table.error("packages", f"{package!r} isn't a package name")
    paths = {
        "executables": recipe.executables,
        "drop": recipe.drop,
        "links": tuple(path for path, _ in recipe.links),
        "scripts": tuple(path for path, _ in recipe.scripts),
        "python_path": recipe.python_path,
        "library": (recipe.library_folder,) if recipe.library_folder else (),
    }
    for key, values in paths.items():
        for value in values:
            if not is_inside(value):
                raise table.error(
                    key, f"{value!r} must be a path below the root, without a leading slash or '..'"
                )
    _check_python(recipe, table)
    program = recipe.entrypoint[0] if recipe.entrypoint else None
    if program is None or program.removeprefix("/") not in recipe.executables or not program.startswith("/"):
        raise table.error("entrypoint", "must start with the absolute path of one of the executables")


def _check_python(recipe: Recipe, table: RecipeTable) -> None:
    if recipe.python is None:
        if recipe.guest or recipe.python_path:
            raise table.error("python", "is required for an image with guest code or a python_path")
        return
    if not _VERSION.fullmatch(recipe.python):
        raise table.error("python", f"{recipe.python!r} isn't a version such as '3.11'")
    if f"usr/bin/python{recipe.python}" not in recipe.executables:
        raise table.error("executables", f"must contain 'usr/bin/python{recipe.python}'")


def is_inside(path: str) -> bool:
    """Return whether a relative path stays below its base folder."""
    parts = PurePosixPath(path).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts
