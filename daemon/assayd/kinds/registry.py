"""Finds the kinds of submission, and imports what they refer to.

Every kind is an entry point for its validator. The kinds of this package are the package's folders. A wing
is a kind in another package of this project, and is loaded if that package is installed. Kinds of other
distributions, in the group `assayd.validators`, are loaded only if an operator enables them by name,
because they run inside the daemon. After loading, all kinds are treated equally.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from assayd import did_you_mean, kinds
from assayd.errors import ConfigError, RequestError
from assayd.ports.command_line import KindCommandLine

if TYPE_CHECKING:  # every command of the client imports this module, but no validator
    from importlib.metadata import EntryPoint

    from assayd.kind import Kind

GROUP = "assayd.validators"
COMMAND_LINES = "assayd.command_lines"
"""Entry points for the command line of kinds; each has the name of its validator."""

DATA = "assayd.data"
"""The group of packages with the files of a kind: folders `policies` and `images`, as in this project."""


PACKAGE_BY_KIND: Mapping[str, str] = MappingProxyType(
    {"fifth": "assayd_fifth", "pipeline": "assayd_pipeline"}
)
"""The package of each kind that this project ships as a wing: the core works without it."""


@cache
def find_packages() -> Mapping[str, str]:
    """Return the package of each installed kind of this project, without importing the packages."""
    folders = (found.name for found in pkgutil.iter_modules(kinds.__path__) if found.ispkg)
    core = {name: f"{kinds.__name__}.{name}" for name in folders}
    wings = {kind: package for kind, package in PACKAGE_BY_KIND.items() if find_spec(package) is not None}
    return MappingProxyType(dict(sorted((core | wings).items())))


def find_missing_packages() -> Mapping[str, str]:
    """Return the package of each optional kind that isn't installed."""
    return {kind: package for kind, package in PACKAGE_BY_KIND.items() if kind not in find_packages()}


def list_own_kinds() -> tuple[str, ...]:
    """Return the sorted names of this project's installed kinds."""
    return tuple(find_packages())


@cache
def load_own_validators() -> Mapping[str, Kind]:
    """Return this project's validators by kind, sorted by name."""
    return MappingProxyType({name: load_own_validator(name) for name in list_own_kinds()})


@cache
def load_own_validator(kind: str) -> Kind:
    """Return the validator of one of this project's kinds. Import no other kind."""
    from importlib.metadata import EntryPoint

    return _load_validator(EntryPoint(kind, f"{find_packages()[kind]}.validator:validator", GROUP))


def find_validator(kind: str, enabled: Sequence[str] = ()) -> Kind:
    """Return the validator of a kind, which is part of this project or an entry point enabled by name.

    Raises:
        RequestError: ``kind.unknown``.
        ConfigError: the same errors as `load_validators`.
    """
    if kind in list_own_kinds():
        return load_own_validator(kind)
    if not enabled:
        raise RequestError("kind.unknown", format_unknown_kind_message(kind, list_own_kinds()), field="kind")
    known = load_validators(enabled)
    if kind not in known:
        raise RequestError("kind.unknown", format_unknown_kind_message(kind, known), field="kind")
    return known[kind]


def format_unknown_kind_message(kind: str, known: Iterable[str]) -> str:
    """Return the error message for an unknown kind. For an optional kind, name the missing package."""
    if (package := find_missing_packages().get(kind)) is not None:
        return f"the kind {kind!r} isn't installed: the package {package} is missing"
    names = list(known)
    hint = did_you_mean.format_did_you_mean_hint(kind, names)
    return f"unknown kind {kind!r}{hint}; use one of {', '.join(names)}"


def load_validators(enabled: Sequence[str]) -> Mapping[str, Kind]:
    """Return all validators by kind: this project's validators, and the entry points enabled by name.

    Raises: ConfigError ``validator.missing``, ``validator.broken`` or ``validator.duplicate``, if an entry
    point isn't installed, can't be imported, or is for an existing kind.
    """
    loaded = dict(load_own_validators())
    for entry in _iter_named_entry_points(enabled):
        validator = _load_validator(entry)
        if validator.name in loaded:
            message = f"the validator {entry.name!r} is for the kind {validator.name!r}, which already exists"
            raise ConfigError("validator.duplicate", message, field=entry.name)
        loaded[validator.name] = validator
    return MappingProxyType(loaded)


def apply_operator_tables(loaded: Mapping[str, Kind], tables: Mapping[str, Sequence[Path]]) -> None:
    """Add an operator's additional rules and words to the kinds, in this process.

    Raises: ConfigError ``tables.unknown``, if a kind is unknown or doesn't support additions.
    """
    for kind, folders in tables.items():
        if kind not in loaded:
            message = f"tables names {kind!r}, which isn't a kind; the kinds are {', '.join(loaded)}"
            raise ConfigError("tables.unknown", message, field=f"tables.{kind}")
        loaded[kind].use_tables(folders)


def find_data_folders(enabled: Sequence[str], name: str) -> tuple[Path, ...]:
    """Return the folders with the given name (`policies` or `images`) of the enabled kinds' packages.

    Raises: ConfigError ``validator.broken``, if a package isn't installed.
    """
    folders = []
    for entry in _list_entry_points(DATA) if enabled else ():
        if entry.name not in enabled:
            continue
        spec = find_spec(entry.value)
        if spec is None or not spec.submodule_search_locations:
            message = (
                f"{entry.value!r}, which should hold the files of the kind {entry.name}, isn't a package"
            )
            raise ConfigError("validator.broken", message, field=entry.name)
        folders += [Path(place, name) for place in spec.submodule_search_locations]
    return tuple(folder for folder in folders if folder.is_dir())


def list_external_kinds() -> frozenset[str]:
    """Return the names of all kinds in other installed packages, enabled or disabled."""
    return frozenset(entry.name for entry in _list_entry_points(GROUP))


def load_command_line(kind: str, enabled: Sequence[str] = ()) -> KindCommandLine:
    """Return a kind's command-line description, or the default one. Don't import the validator.

    Raises: ConfigError ``validator.broken``, if the description can't be imported or has the wrong type.
    """
    if kind in list_own_kinds():
        module = f"{find_packages()[kind]}.command_line"
        found = f"{module}:command_line" if find_spec(module) is not None else ""
    else:
        offered = _list_entry_points(COMMAND_LINES) if kind in enabled else ()
        found = next((entry.value for entry in offered if entry.name == kind), "")
    value = import_reference(found) if found else KindCommandLine()
    if not isinstance(value, KindCommandLine):
        raise ConfigError("validator.broken", f"{found} is not a CommandLine", field=kind)
    return value


def import_reference(reference: str) -> object:
    """Import and return the object that ``package.module:name`` refers to.

    Raises: ConfigError ``validator.broken``, if the object can't be imported.
    """
    try:
        found: object = pkgutil.resolve_name(reference)
    except (ImportError, AttributeError, ValueError) as problem:
        message = f"{reference!r}, which a kind refers to, can't be imported: {problem}"
        raise ConfigError("validator.broken", message, field=reference) from problem
    return found


def import_function(reference: str) -> Callable[[], None]:
    """Return the function that ``package.module:name`` refers to.

    Raises: ConfigError ``validator.broken``, if it can't be imported or isn't a function.
    """
    found = import_reference(reference)
    if not callable(found):
        raise ConfigError("validator.broken", f"{reference!r} isn't a function", field=reference)
    return found


def import_reader(reference: str) -> Callable[[bytes], bytes]:
    """Return the bytes parser that ``package.module:name`` refers to.

    Raises: ConfigError ``validator.broken``, if it can't be imported or isn't a function.
    """
    reader: Callable[[bytes], bytes] = import_function(reference)  # type: ignore[assignment]
    return reader


def _load_validator(entry: EntryPoint) -> Kind:
    try:
        validator: Kind = entry.load()
    except (ImportError, AttributeError) as problem:
        message = f"the validator {entry.name!r} ({entry.value}) can't be imported: {problem}"
        raise ConfigError("validator.broken", message, field=entry.name) from problem
    return validator


def _iter_named_entry_points(enabled: Sequence[str]) -> Iterator[EntryPoint]:
    offered = {entry.name: entry for entry in _list_entry_points(GROUP)} if enabled else {}
    for name in enabled:
        if name not in offered:
            message = f"no installed distribution offers the validator {name!r} (group {GROUP})"
            raise ConfigError("validator.missing", message, field=name)
        yield offered[name]


def _list_entry_points(group: str) -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points

    return entry_points(group=group)
