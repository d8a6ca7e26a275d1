"""Defines the recipes of images, and finds the shipped recipes and the operator's recipes.

A shipped recipe is parsed from `base.toml` and `<name>/image.toml`. An operator's recipe is a TOML file in a
folder with its lock and files. It extends another recipe, whose values are used for missing keys, or adopts a
foreign image.

This module validates recipes; its errors name the faulty key and file. The module `building` builds the
images.
"""

import re
import tomllib
from collections.abc import Set
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from assayd.errors import ConfigError
from assayd.imaging.tree import compute_digest
from assayd.imaging.wheels import SITE, WheelLock, read_lock


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
        """Return the error for a problem with `key`."""
        return ConfigError("image.recipe_invalid", f"{self.path}: {key}: {problem}", field=key)

    def text(self, key: str) -> str | None:
        """Return a string, or None if the key is missing.

        Raises: ConfigError, for a value of another type.
        """
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.error(key, "must be a string")

    def get_flag(self, key: str) -> bool:
        """Return a boolean, or False if the key is missing.

        Raises: ConfigError, for a value of another type.
        """
        value = self.values.get(key, False)
        if isinstance(value, bool):
            return value
        raise self.error(key, "must be true or false")

    def count(self, key: str) -> int | None:
        """Return a positive integer, or None if the key is missing.

        Raises: ConfigError, for any other value.
        """
        value = self.values.get(key)
        if value is None or (type(value) is int and value > 0):
            return value
        raise self.error(key, "must be an integer above 0")

    def get_texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings, which is empty if the key is missing.

        Raises: ConfigError, for a value of another type.
        """
        value = self.values.get(key, [])
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise self.error(key, "must be a list of strings")

    def get_pairs(self, key: str) -> dict[str, str]:
        """Return a table of strings, which is empty if the key is missing.

        Raises: ConfigError, for a value of another type.
        """
        value = self.values.get(key, {})
        if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
            return value
        raise self.error(key, "must be a table of strings")


RECIPE = "image.toml"
BASE = "base.toml"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]+")
_RELEASE_PATTERN = re.compile(r"3\.[0-9]+")
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
    def needs_measurement(self) -> bool:
        """Return whether a build must measure the baseline because the recipe doesn't set it."""
        return bool(self.extends or self.preload or self.source)

    @property
    def constants(self) -> tuple[str, ...]:
        """Return the environment variables that also apply to submitted code."""
        return tuple(name for name, _ in self.environment if name not in _FOR_PROGRAMS)

    @property
    def library(self) -> str:
        """Return the interpreter's library folder. The image must contain Python."""
        return f"usr/lib/python{self.python}"


def load_recipe(recipes: Path, name: str, shipped: Path | None = None) -> Recipe:
    """Parse the recipe of a shipped image. `RecipeFolders.load` also finds the operator's recipes.

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
    """Raise ConfigError ``image.recipe_invalid`` for unusable values of the correct type."""
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
            if not is_below_base(value):
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
    if not _RELEASE_PATTERN.fullmatch(recipe.python):
        raise table.error("python", f"{recipe.python!r} isn't a version such as '3.11'")
    if f"usr/bin/python{recipe.python}" not in recipe.executables:
        raise table.error("executables", f"must contain 'usr/bin/python{recipe.python}'")


def is_below_base(path: str) -> bool:
    """Return whether a relative path stays below its base folder."""
    parts = PurePosixPath(path).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts


@dataclass(frozen=True, slots=True)
class RecipeFolders:
    """The folders of shipped recipes and of the operator's recipes. The operator's folder is optional.

    `packaged` lists the recipe folders of other installed packages.
    """

    shipped: Path
    own: Path | None = None
    packaged: tuple[Path, ...] = ()

    def names(self) -> list[str]:
        """Return the names of all recipes, beginning with the shipped recipes."""
        found = [sorted(each.glob(f"*/{RECIPE}")) for each in (self.shipped, *self.packaged)]
        shipped = [path.parent.name for paths in found for path in paths]
        own = sorted(path.stem for path in self.own.glob(f"*{SUFFIX}")) if self.own is not None else []
        return [*shipped, *own]

    def load_all(self) -> list[Recipe]:
        """Parse all recipes. Raises: ConfigError ``image.recipe_invalid``, if one is invalid."""
        return [self.load(name) for name in self.names()]

    def load(self, name: str) -> Recipe:
        """Parse the recipe of an image.

        Raises:
            ConfigError: ``image.unknown`` (no such recipe) or ``image.recipe_invalid``.
        """
        return self._load_extended(name, ())

    def _load_extended(self, name: str, trail: tuple[str, ...]) -> Recipe:
        own = get_recipe_path(self.own, name) if self.own is not None and is_image_name(name) else None
        if self.own is None or own is None or not own.is_file():
            return self._load_shipped(name, own)
        shipped = self._find_recipe_folder(name) / name / RECIPE
        if shipped.is_file():
            raise duplicate_recipe_error(name, shipped, own)
        table, extends = read_recipe_table(self.own, name)
        if extends is None:
            return read_adopted_recipe(table, name)
        if extends in {name, *trail}:
            circle = " > ".join((*trail, name, extends))
            raise table.error("extends", f"recipes extend each other in a cycle: {circle}")
        parent = self._load_extended(extends, (*trail, name))
        if parent.source is not None:
            raise table.error("extends", f"image {extends!r} is adopted and used unchanged; extend another")
        recipe = extend_recipe(parent, table, name)
        check_recipe(recipe, table)
        return recipe

    def _find_recipe_folder(self, name: str) -> Path:
        """Return the folder that contains an image's recipe, or the shipped folder for an unknown image."""
        if not is_image_name(name):
            return self.shipped
        having = (each for each in (self.shipped, *self.packaged) if (each / name / RECIPE).is_file())
        return next(having, self.shipped)

    def _load_shipped(self, name: str, own: Path | None) -> Recipe:
        try:
            return load_recipe(self._find_recipe_folder(name), name, self.shipped)
        except ConfigError as error:
            if error.code != "image.unknown" or own is None:
                raise
            known = ", ".join(self.names())
            message = f"unknown image recipe {name!r} ({own} doesn't exist either); use one of {known}"
            raise ConfigError(error.code, message) from error


SUFFIX = ".toml"
KEYS = frozenset(
    {
        "description", "extends", "packages", "executables", "drop", "python_packages", "files",
        "environment", "preload", "baseline_mb", "offer",
    }
)  # fmt: skip

_KEYS_OF_ADOPTED = frozenset({"from", "tag", "description", "environment", "preload", "baseline_mb", "offer"})
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)

_REQUIREMENT_PATTERN = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?([<>=!~]=?=?[A-Za-z0-9.*+!]+(,[<>=!~]=?=?[A-Za-z0-9.*+!]+)*)?"
)
_VARIABLE_PATTERN = re.compile(r"[A-Z][A-Z0-9_]*")
_FORBIDDEN_PREFIXES = ("ASSAYD_", "LD_", "PYTHON")
"""Prefixes of variables that could change the runner or its interpreter."""
_RESERVED_VARIABLES = frozenset({"HOME", "LANG", "PATH", "TMPDIR"})
_WHEEL_LIBRARIES = ("libstdc++6",)
"""System libraries that wheels can expect (manylinux, PEP 600) but the image `python` lacks."""


def get_recipe_path(own: Path, name: str) -> Path:
    """Return the path of an operator's recipe."""
    return own / f"{name}{SUFFIX}"


def get_lock_path(own: Path, name: str) -> Path:
    """Return the path of a recipe's lock."""
    return own / f"{name}.lock"


def read_recipe_table(own: Path, name: str) -> tuple[RecipeTable, str | None]:
    """Parse a recipe file. Return its table, and the extended recipe's name (None for an adopted image).

    Raises: ConfigError ``image.recipe_invalid``, if the file is unreadable or has unsuitable keys.
    """
    table = RecipeTable.read(get_recipe_path(own, name), KEYS | _KEYS_OF_ADOPTED)
    if table.text("from"):
        for key in table.values:
            if key not in _KEYS_OF_ADOPTED:
                raise table.error(
                    key, "isn't a key of a recipe with `from`: an adopted image is used unchanged"
                )
        return table, None
    extends = table.text("extends")
    if not extends:
        raise table.error("extends", 'must name the recipe to extend, e.g. "python"')
    if "tag" in table.values:
        raise table.error("tag", "requires `from`")
    return table, extends


def read_adopted_recipe(table: RecipeTable, name: str) -> Recipe:
    """Return the recipe of an adopted image. The build determines the image's contents.

    Raises: ConfigError ``image.recipe_invalid``, with the key at fault.
    """
    lock = read_lock(get_lock_path(table.path.parent, name))
    found = _DIGEST.search(lock.source.decode("ascii", "replace"))
    source = AdoptionSource(
        where=table.text("from") or "", tag=table.text("tag"), locked=found[0] if found else None
    )
    modules = table.get_texts("preload")
    return Recipe(
        name=name,
        description=table.text("description") or f"adopted from {source.where}",
        packages=(),
        executables=(),
        drop=(),
        links=(),
        scripts=(),
        environment=tuple(sorted(_read_environment(table).items())),
        python=None,
        python_path=(),
        guest=False,
        ca_bundle=False,
        entrypoint=(),
        library_folder=None,
        baseline_mb=table.count("baseline_mb"),
        offer=table.text("offer") or "",
        preload=_merge_modules(table, modules),
        on_demand=False,
        digest=compute_digest([("own", table.source), ("lock", lock.source)]),
        source=source,
    )


def is_allowed_variable(variable: str) -> bool:
    """Return whether a recipe can set an environment variable for all code, including submitted code."""
    return bool(
        _VARIABLE_PATTERN.fullmatch(variable)
        and not variable.startswith(_FORBIDDEN_PREFIXES)
        and variable not in _RESERVED_VARIABLES
    )


def extend_recipe(parent: Recipe, table: RecipeTable, name: str) -> Recipe:
    """Return the recipe that results from extending `parent`.

    Raises: ConfigError ``image.recipe_invalid``, with the key at fault.
    """
    own = table.path.parent
    python_packages = _merge_own_lists(parent.python_packages, table, "python_packages")
    for text in python_packages:
        if not _REQUIREMENT_PATTERN.fullmatch(text):
            raise table.error(
                "python_packages", f"{text!r} isn't a package with a version, e.g. 'numpy==2.1.3'"
            )
    if python_packages and parent.python is None:
        raise table.error("python_packages", f"image {parent.name!r} has no Python")
    lock = read_lock(get_lock_path(own, name)) if python_packages else None
    files = tuple(
        (place, _resolve_source_file(table, place, file)) for place, file in table.get_pairs("files").items()
    )
    site = (SITE,) if python_packages else ()
    libraries = _WHEEL_LIBRARIES if python_packages else ()
    return replace(
        parent,
        name=name,
        extends=parent.name,
        on_demand=False,
        description=table.text("description") or parent.description,
        packages=tuple(dict.fromkeys((*_merge_own_lists(parent.packages, table, "packages"), *libraries))),
        executables=_merge_own_lists(parent.executables, table, "executables"),
        drop=_merge_own_lists(parent.drop, table, "drop"),
        environment=tuple(sorted((dict(parent.environment) | _read_environment(table)).items())),
        python_path=tuple(dict.fromkeys((*site, *parent.python_path))),
        python_packages=python_packages,
        lock=lock,
        files=parent.files + files,
        preload=_read_preload(parent, table),
        baseline_mb=table.count("baseline_mb"),
        offer=table.text("offer") or parent.offer,
        digest=_compute_digest(parent, table, lock, files),
    )


def _compute_digest(
    parent: Recipe, table: RecipeTable, lock: WheelLock | None, files: tuple[tuple[str, Path], ...]
) -> str:
    parts = [("extends", parent.digest.encode()), ("own", table.source)]
    parts += [("lock", lock.source)] if lock is not None else []
    return compute_digest([*parts, *((place, path.read_bytes()) for place, path in files)])


def _merge_own_lists(inherited: tuple[str, ...], table: RecipeTable, key: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(inherited + table.get_texts(key)))


def _read_environment(table: RecipeTable) -> dict[str, str]:
    found = table.get_pairs("environment")
    for variable in found:
        if not _VARIABLE_PATTERN.fullmatch(variable):
            raise table.error("environment", f"{variable!r} must be a name of A-Z, 0-9 and _")
        if not is_allowed_variable(variable):
            raise table.error("environment", f"{variable} controls the runner and can't be set")
    return found


def _read_preload(parent: Recipe, table: RecipeTable) -> tuple[str, ...]:
    return _merge_modules(table, _merge_own_lists(parent.preload, table, "preload"))


def _merge_modules(table: RecipeTable, modules: tuple[str, ...]) -> tuple[str, ...]:
    for module in modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise table.error("preload", f"{module!r} isn't a module name")
    return modules


def _resolve_source_file(table: RecipeTable, place: str, file: str) -> Path:
    """Return the path of a file in the recipe's folder that is copied into the image.

    Raises: ConfigError ``image.recipe_invalid``, if a path is invalid or the file doesn't exist.
    """
    if not is_below_base(place):
        raise table.error(
            "files", f"{place!r} must be a path below the root, without a leading slash or '..'"
        )
    if not is_below_base(file):
        raise table.error("files", f"{file!r} must be a path relative to the recipe, without '..'")
    path = table.path.parent / PurePosixPath(file)
    if not path.is_file():
        raise table.error("files", f"{path} doesn't exist")
    return path


def duplicate_recipe_error(name: str, shipped: Path, own: Path) -> ConfigError:
    """Return the error for an operator's recipe that has the name of a shipped image."""
    message = f"{own}: {name!r} is the name of a shipped image ({shipped}); rename the recipe"
    return ConfigError("image.recipe_invalid", message)
