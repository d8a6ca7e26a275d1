"""Notices when code that tests are judged by is exchanged: functions and classes of the test framework.

Looked at between all steps of a test, so that what is exchanged and put back in one step changes no other
test than the one that did it. It says what it saw; it prevents nothing.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, partial
from types import BuiltinFunctionType, FunctionType, ModuleType

from .. import private

private.isolate(globals())

_EXCHANGED_BY_TESTS = frozenset({"__import__", "breakpoint", "input", "open", "print", "_"})
"""Built-in names that fixtures put others in the place of, for longer than one step."""
_CODE = (
    FunctionType, BuiltinFunctionType, type, staticmethod, classmethod, property, partial, cached_property,
)  # fmt: skip

_Names = Mapping[str, object]


class Seal:
    """Remembers the code of packages as it is now."""

    def __init__(self, packages: Iterable[str]) -> None:
        tops = frozenset(packages)
        self._modules = {name: module for name, module in _modules() if name.partition(".")[0] in tops}
        classes: dict[type, str] = {}
        self._held: list[tuple[_Names, str, object, str]] = []
        for name, module in self._modules.items():
            for key, value in _code_of(vars(module)):
                self._held.append((vars(module), key, value, f"{name}.{key}"))
                if isinstance(value, type) and value.__module__.partition(".")[0] in tops:
                    classes[value] = f"{value.__module__}.{value.__qualname__}"
        for kind, name in classes.items():
            self._held += [(vars(kind), key, value, f"{name}.{key}") for key, value in _code_of(vars(kind))]
        self._keys = [(vars(kind), frozenset(vars(kind)), name) for kind, name in classes.items()]
        self._held += [
            (vars(builtins), key, value, f"builtins.{key}")
            for key, value in vars(builtins).items()
            if key not in _EXCHANGED_BY_TESTS
        ]

    def broken(self) -> str | None:
        """Name the first thing that is not what it was."""
        for names, key, value, name in self._held:
            if names.get(key) is not value:
                return name
        for names, keys, name in self._keys:
            if len(names) != len(keys):
                added = [key for key, _ in _code_of(names) if key not in keys]
                if added:
                    return f"{name}.{added[0]}"
        loaded = dict(_modules())
        return next((name for name, module in self._modules.items() if loaded.get(name) is not module), None)


def _modules() -> Iterator[tuple[str, ModuleType]]:
    for name, module in list(sys.modules.items()):
        if type(module) is ModuleType:
            yield name, module


def _code_of(names: _Names) -> Iterator[tuple[str, object]]:
    for key, value in list(names.items()):
        if isinstance(value, _CODE):
            yield key, value
