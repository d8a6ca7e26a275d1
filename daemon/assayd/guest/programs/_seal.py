"""Detects whether code that decides the outcome of tests, i.e. the framework's, was replaced.

The code is checked between all steps of a test. If a test replaces and restores code within one step, this
can therefore affect only this test. This module reports changes, but doesn't prevent them.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from functools import cached_property, partial
from types import BuiltinFunctionType, FunctionType, ModuleType

from .. import builtin_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

builtin_names.isolate_builtins(globals())

_EXCHANGED_BY_TESTS = frozenset({"__import__", "breakpoint", "input", "open", "print", "_"})
"""Built-in names that fixtures put others in the place of, for longer than one step."""
_CODE = (
    FunctionType, BuiltinFunctionType, type, staticmethod, classmethod, property, partial, cached_property,
)  # fmt: skip

_ELSEWHERE = (("sys", "exc_info"), ("asyncio", "BaseEventLoop"), ("asyncio", "SelectorEventLoop"))
"""What the framework judges by, or runs tests with, and does not have itself."""

_Names = Mapping[str, object]
_bases_of = type.__dict__["__bases__"].__get__


class CodeSnapshot:
    """A snapshot of the code in packages: their modules, classes and base classes."""

    def __init__(self, packages: Iterable[str]) -> None:
        tops = frozenset(packages)
        self._modules = {name: module for name, module in _iter_modules() if name.partition(".")[0] in tops}
        classes: dict[type, None] = {}
        self._held: list[tuple[_Names, str, object, str]] = []
        for name, module in self._modules.items():
            for key, value in _iter_code_items(vars(module)):
                self._held.append((vars(module), key, value, f"{name}.{key}"))
                if isinstance(value, type) and value.__module__.partition(".")[0] in tops:
                    classes |= dict.fromkeys(value.__mro__)
        for name, key in _ELSEWHERE:
            if (elsewhere := sys.modules.get(name)) is not None:
                value = vars(elsewhere)[key]
                self._held.append((vars(elsewhere), key, value, f"{name}.{key}"))
                if isinstance(value, type):
                    classes |= dict.fromkeys(value.__mro__)
        for kind in classes:
            self._held += [
                (vars(kind), key, value, f"{_name(kind)}.{key}")
                for key, value in _iter_code_items(vars(kind))
            ]
        self._keys = [(vars(kind), frozenset(vars(kind)), _name(kind)) for kind in classes]
        self._bases = [(kind, _bases_of(kind), _name(kind)) for kind in classes]
        self._held += [
            (vars(builtins), key, value, f"builtins.{key}")
            for key, value in vars(builtins).items()
            if key not in _EXCHANGED_BY_TESTS
        ]

    def broken(self) -> str | None:
        """Return the name of the first part that has changed, or None if no part has changed."""
        for names, key, value, name in self._held:
            if names.get(key) is not value:
                return name
        for names, keys, name in self._keys:
            if names.keys() != keys and (added := _find_new_code_names(names, keys)):
                return f"{name}.{added[0]}"
        for kind, bases, name in self._bases:
            if _bases_of(kind) is not bases:
                return f"{name}.__bases__"
        loaded = dict(_iter_modules())
        return next((name for name, module in self._modules.items() if loaded.get(name) is not module), None)


def iter_shadowed_attributes(thing: object) -> Iterator[tuple[str, object]]:
    """Yield the names and values of an object's attributes that shadow code of its class."""
    kinds = type(thing).__mro__
    for key, value in list(getattr(thing, "__dict__", {}).items()):
        found = next((vars(kind)[key] for kind in kinds if key in vars(kind)), None)
        if isinstance(found, _CODE) and not isinstance(found, cached_property):
            yield key, value


def _find_new_code_names(names: _Names, keys: frozenset[str]) -> list[str]:
    """Return the new names that refer to code, or that the interpreter looks up implicitly."""
    code = dict(_iter_code_items(names))
    new = (key for key in names if key not in keys)
    return [key for key in new if key in code or key.startswith("__")]


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _iter_modules() -> Iterator[tuple[str, ModuleType]]:
    for name, module in list(sys.modules.items()):
        if type(module) is ModuleType:
            yield name, module


def _iter_code_items(names: _Names) -> Iterator[tuple[str, object]]:
    for key, value in list(names.items()):
        if isinstance(value, _CODE):
            yield key, value
