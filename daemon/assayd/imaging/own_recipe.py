"""An operator's recipe: a TOML file that extends another recipe, in a folder with its lock and files.

This module defines the allowed keys and derives the resulting recipe. For a missing key, the value of the
extended recipe is used.
"""

import re
from dataclasses import replace
from pathlib import Path, PurePosixPath

from assayd.errors import ConfigError
from assayd.imaging.digest import compute_digest
from assayd.imaging.recipe import AdoptionSource, Recipe, RecipeTable, is_inside
from assayd.imaging.wheels import SITE, WheelLock, read_lock

SUFFIX = ".toml"
KEYS = frozenset(
    {
        "description", "extends", "packages", "executables", "drop", "python_packages", "files",
        "environment", "preload", "baseline_mb", "offer",
    }
)  # fmt: skip

_KEYS_OF_ADOPTED = frozenset({"from", "tag", "description", "environment", "preload", "baseline_mb", "offer"})
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)

_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?([<>=!~]=?=?[A-Za-z0-9.*+!]+(,[<>=!~]=?=?[A-Za-z0-9.*+!]+)*)?"
)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_NOT_SET = ("ASSAYD_", "LD_", "PYTHON")
"""Prefixes of variables that could change the runner or its interpreter."""
_SET_BY_US = frozenset({"HOME", "LANG", "PATH", "TMPDIR"})
_FOR_WHEELS = ("libstdc++6",)
"""System libraries that wheels can expect (manylinux, PEP 600) but the image `python` lacks."""


def recipe_path(own: Path, name: str) -> Path:
    """Return the path of an operator's recipe."""
    return own / f"{name}{SUFFIX}"


def lock_path(own: Path, name: str) -> Path:
    """Return the path of a recipe's lock."""
    return own / f"{name}.lock"


def read_recipe_table(own: Path, name: str) -> tuple[RecipeTable, str | None]:
    """Parse a recipe file; return its table, and the extended recipe's name or None for an adopted image.

    Raises: ConfigError ``image.recipe_invalid``.
    """
    table = RecipeTable.read(recipe_path(own, name), KEYS | _KEYS_OF_ADOPTED)
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
    """Return the recipe of an adopted image; the build determines the image's contents.

    Raises: ConfigError ``image.recipe_invalid``, with the key at fault.
    """
    lock = read_lock(lock_path(table.path.parent, name))
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


def is_variable_for_code(variable: str) -> bool:
    """Return whether a recipe is allowed to set an environment variable for all code in an image."""
    return bool(
        _VARIABLE.fullmatch(variable) and not variable.startswith(_NOT_SET) and variable not in _SET_BY_US
    )


def extend_recipe(parent: Recipe, table: RecipeTable, name: str) -> Recipe:
    """Return the recipe that results from extending `parent`.

    Raises: ConfigError ``image.recipe_invalid``, with the key at fault.
    """
    own = table.path.parent
    python_packages = _merge_lists(parent.python_packages, table, "python_packages")
    for text in python_packages:
        if not _REQUIREMENT.fullmatch(text):
            raise table.error(
                "python_packages", f"{text!r} isn't a package with a version, e.g. 'numpy==2.1.3'"
            )
    if python_packages and parent.python is None:
        raise table.error("python_packages", f"image {parent.name!r} has no Python")
    lock = read_lock(lock_path(own, name)) if python_packages else None
    files = tuple(
        (place, _resolve_source_file(table, place, file)) for place, file in table.get_pairs("files").items()
    )
    site = (SITE,) if python_packages else ()
    libraries = _FOR_WHEELS if python_packages else ()
    return replace(
        parent,
        name=name,
        extends=parent.name,
        on_demand=False,
        description=table.text("description") or parent.description,
        packages=tuple(dict.fromkeys((*_merge_lists(parent.packages, table, "packages"), *libraries))),
        executables=_merge_lists(parent.executables, table, "executables"),
        drop=_merge_lists(parent.drop, table, "drop"),
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


def _merge_lists(inherited: tuple[str, ...], table: RecipeTable, key: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(inherited + table.get_texts(key)))


def _read_environment(table: RecipeTable) -> dict[str, str]:
    found = table.get_pairs("environment")
    for variable in found:
        if not _VARIABLE.fullmatch(variable):
            raise table.error("environment", f"{variable!r} must be a name of A-Z, 0-9 and _")
        if not is_variable_for_code(variable):
            raise table.error("environment", f"{variable} controls the runner and can't be set")
    return found


def _read_preload(parent: Recipe, table: RecipeTable) -> tuple[str, ...]:
    return _merge_modules(table, _merge_lists(parent.preload, table, "preload"))


def _merge_modules(table: RecipeTable, modules: tuple[str, ...]) -> tuple[str, ...]:
    for module in modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise table.error("preload", f"{module!r} isn't a module name")
    return modules


def _resolve_source_file(table: RecipeTable, place: str, file: str) -> Path:
    """Return the path of a file in the recipe's folder that is copied into the image."""
    if not is_inside(place):
        raise table.error(
            "files", f"{place!r} must be a path below the root, without a leading slash or '..'"
        )
    if not is_inside(file):
        raise table.error("files", f"{file!r} must be a path relative to the recipe, without '..'")
    path = table.path.parent / PurePosixPath(file)
    if not path.is_file():
        raise table.error("files", f"{path} doesn't exist")
    return path


def duplicate_recipe_error(name: str, shipped: Path, own: Path) -> ConfigError:
    """Return the error for an operator's recipe that has the name of a shipped image."""
    message = f"{own}: {name!r} is the name of a shipped image ({shipped}); rename the recipe"
    return ConfigError("image.recipe_invalid", message)
