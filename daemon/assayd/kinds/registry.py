"""Finds the kinds of submission: `validator` of the module `validator` in each folder.

Those of this package are found by scanning it. Those of other distributions, in the entry-point group
`assayd.validators`, are loaded only when an operator names them: they run inside the daemon.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType

from assayd import kinds
from assayd.errors import ConfigError, RequestError
from assayd.ports.validator import Validator

GROUP = "assayd.validators"


@cache
def all_validators() -> Mapping[str, Validator]:
    """Return the validators of this package by kind, in the order of their names."""
    folders = (found.name for found in pkgutil.iter_modules(kinds.__path__) if found.ispkg)
    found: list[Validator] = [
        import_module(f"{kinds.__name__}.{name}.validator").validator for name in folders
    ]
    return MappingProxyType({validator.kind: validator for validator in found})


def find(kind: str) -> Validator:
    """Return the validator of a kind of this package.

    Raises: RequestError ``kind.unknown``.
    """
    known = all_validators()
    if kind not in known:
        message = f"there is no kind {kind!r}; known are {', '.join(known)}"
        raise RequestError("kind.unknown", message, field="kind")
    return known[kind]


def load(enabled: Sequence[str]) -> Mapping[str, Validator]:
    """Return all validators by kind: those of this package, and those entry points that are named.

    Raises: ConfigError ``validator.missing`` or ``validator.duplicate``.
    """
    loaded = dict(all_validators())
    offered = {entry.name: entry for entry in entry_points(group=GROUP)} if enabled else {}
    for name in enabled:
        if name not in offered:
            message = f"no installed distribution offers the validator {name!r} (group {GROUP})"
            raise ConfigError("validator.missing", message, field=name)
        validator: Validator = offered[name].load()
        if validator.kind in loaded:
            message = f"the validator {name!r} is for the kind {validator.kind!r}, which there is already"
            raise ConfigError("validator.duplicate", message, field=name)
        loaded[validator.kind] = validator
    return MappingProxyType(loaded)
