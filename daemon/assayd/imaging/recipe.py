"""What an image is made of, read from `base.toml` and `<name>/image.toml`.

Decides whether a recipe can be used, and says which key of which file is at fault. Building is left to
`building`.
"""

import re
import tomllib
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from assayd.errors import ConfigError
from assayd.imaging.digest import digest_of
from assayd.imaging.wheels import Lock


@dataclass(frozen=True, slots=True)
class Table:
    """The top table of a recipe file. A key that is absent reads as empty, false or None."""

    path: Path
    source: bytes
    values: dict[str, object]

    @classmethod
    def read(cls, path: Path, keys: Set[str]) -> "Table":
        """Read `path`, which may hold `keys` and no others.

        Raises:
            ConfigError: ``image.recipe_invalid``, when it cannot be read, is not TOML, or holds another key.
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
        """Return the error about `key`."""
        return ConfigError("image.recipe_invalid", f"{self.path}: {key}: {problem}", field=key)

    def text(self, key: str) -> str | None:
        """Return a string, or None."""
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.error(key, "must be a string")

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self.values.get(key, False)
        if isinstance(value, bool):
            return value
        raise self.error(key, "must be true or false")

    def count(self, key: str) -> int | None:
        """Return an integer above 0, or None."""
        value = self.values.get(key)
        if value is None or (type(value) is int and value > 0):
            return value
        raise self.error(key, "must be an integer above 0")

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self.values.get(key, [])
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise self.error(key, "must be a list of strings")

    def pairs(self, key: str) -> dict[str, str]:
        """Return a table of strings; empty if it is missing. Raises: ConfigError."""
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
class AdoptedFrom:
    """The foreign image that an adopted image is made from.

    `where` is a path, or the name that a local engine has for it; `tag` says which of several is meant;
    `locked` is the digest of its configuration when it was adopted, None before.
    """

    where: str
    tag: str | None
    locked: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One image, with what `base.toml` adds to it already added."""

    name: str
    """Folder name; the image is called ``assayd/<name>``."""
    description: str
    packages: tuple[str, ...]
    """Packages of the distribution; apt adds what they depend on."""
    executables: tuple[str, ...]
    """The only programs that stay, as paths without the leading slash."""
    drop: tuple[str, ...]
    """Glob patterns of further files to remove."""
    links: tuple[tuple[str, str], ...]
    """Symbolic links to add: path, target."""
    scripts: tuple[tuple[str, str], ...]
    """Executable scripts to add: path, content."""
    environment: tuple[tuple[str, str], ...]
    python: str | None
    """Interpreter version ``3.N`` whose library is compiled in; None for an image without Python."""
    python_path: tuple[str, ...]
    """Further library folders; compiled in, and handed to the guest code as ASSAYD_PYTHON_PATH."""
    guest: bool
    """Whether our guest code is put into the interpreter's library."""
    ca_bundle: bool
    """Whether the certificates of package ca-certificates are joined into one bundle."""
    entrypoint: tuple[str, ...]
    library_folder: str | None
    """Where the files of a folder go that the operator gives; None for an image that takes none."""
    baseline_mb: int | None
    """Memory that its runner and libraries take before any guest code runs, where the usual is too little."""
    offer: str
    """Which programs it has, in the words of a hint."""
    preload: tuple[str, ...]
    """Modules that its runner loads ahead of need."""
    on_demand: bool
    """Whether it is built only when it is named."""
    digest: str
    """Over the bytes of all files that define it."""
    extends: str | None = None
    """The recipe that one of the operator's adds to; None for those that are shipped."""
    python_packages: tuple[str, ...] = ()
    """What its wheels were chosen for."""
    lock: Lock | None = None
    files: tuple[tuple[str, Path], ...] = ()
    """Files of the operator: place in the image, path on the host."""
    source: AdoptedFrom | None = None
    """For an image that is adopted, and not made from packages."""

    @property
    def is_measured(self) -> bool:
        """Return whether a build measures the baseline, because the recipe doesn't state it."""
        return bool(self.extends or self.preload or self.source)

    @property
    def constants(self) -> tuple[str, ...]:
        """Name the variables of the environment that hold for submitted code as well."""
        return tuple(name for name, _ in self.environment if name not in _FOR_PROGRAMS)

    @property
    def library(self) -> str:
        """Return the interpreter's library folder; only for an image with Python."""
        return f"usr/lib/python{self.python}"


def load_recipe(recipes: Path, name: str, shipped: Path | None = None) -> Recipe:
    """Read the recipe of an image that is shipped; `recipes.load` knows those of the operator as well.

    `shipped` has `base.toml`, if `recipes` is the folder of another package.

    Raises:
        ConfigError: ``image.unknown`` (no such recipe) or ``image.recipe_invalid`` (cannot be used).
    """
    path = recipes / name / RECIPE
    if not is_name(name) or not path.is_file():
        raise ConfigError("image.unknown", f"unknown image recipe {name!r}: {path} doesn't exist")
    base = Table.read((shipped or recipes) / BASE, _BASE_KEYS)
    own = Table.read(path, _KEYS)
    recipe = Recipe(
        name=name,
        description=own.text("description") or "",
        packages=_joined("packages", base, own),
        executables=_joined("executables", base, own),
        drop=_joined("drop", base, own),
        links=tuple((base.pairs("links") | own.pairs("links")).items()),
        scripts=tuple((base.pairs("scripts") | own.pairs("scripts")).items()),
        environment=tuple(sorted((base.pairs("environment") | own.pairs("environment")).items())),
        python=own.text("python"),
        python_path=own.texts("python_path"),
        guest=own.flag("guest"),
        ca_bundle=own.flag("ca_bundle"),
        entrypoint=own.texts("entrypoint"),
        library_folder=own.text("library"),
        baseline_mb=own.count("baseline_mb"),
        offer=own.text("offer") or "",
        preload=own.texts("preload"),
        on_demand=own.flag("on_demand"),
        digest=digest_of([(BASE, base.source), (RECIPE, own.source)]),
    )
    check(recipe, own)
    return recipe


def is_name(name: str) -> bool:
    """Return whether an image can have this name."""
    return _NAME.fullmatch(name) is not None


def _joined(key: str, base: Table, own: Table) -> tuple[str, ...]:
    return tuple(dict.fromkeys(base.texts(key) + own.texts(key)))


def check(recipe: Recipe, table: Table) -> None:
    """Refuse what the types allow and a build could not use. Raises: ConfigError ``image.recipe_invalid``."""
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


def _check_python(recipe: Recipe, table: Table) -> None:
    if recipe.python is None:
        if recipe.guest or recipe.python_path:
            raise table.error("python", "is required for an image with guest code or a python_path")
        return
    if not _VERSION.fullmatch(recipe.python):
        raise table.error("python", f"{recipe.python!r} isn't a version such as '3.11'")
    if f"usr/bin/python{recipe.python}" not in recipe.executables:
        raise table.error("executables", f"must contain 'usr/bin/python{recipe.python}'")


def is_inside(path: str) -> bool:
    """Return whether a path stays below the folder that it is relative to."""
    parts = PurePosixPath(path).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts
