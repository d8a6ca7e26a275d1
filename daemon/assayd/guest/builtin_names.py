"""The built-in names that our modules use, and those that guest code sees.

Our modules in the guest's process use a private copy, which guest code can't replace. Guest code gets all
names, or only those without access beyond the language. The extractor's page lists the names that must be
removed. Running ordinary code showed which names must be kept: a class statement needs ``__build_class__``,
and an import statement needs ``__import__``.
"""

from __future__ import annotations

import builtins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    _T = TypeVar("_T")
    _cached: Any
else:
    from _functools import _lru_cache_wrapper as _cached

NAMES = dict(vars(builtins))
"""One copy for all of our modules, made before any guest code runs."""


def isolate_builtins(module: dict[str, object]) -> None:
    """Give a module a copy of the built-in names, for functions defined after the call.

    In these functions, `builtins.len = …` in guest code has no effect.

    Args:
        module: the caller's ``globals()``.
    """
    module["__builtins__"] = NAMES


_UNSAFE_NAMES = frozenset(
    {"open", "exec", "eval", "compile", "input", "breakpoint", "help", "exit", "quit", "globals", "locals"}
)
_SHOWN = ("__module__", "__name__", "__qualname__", "__doc__")
_HIDDEN = frozenset({"__loader__", "__spec__", "_", "copyright", "credits", "license"})
_EXCLUDED_NAMES = {"safe": _HIDDEN | _UNSAFE_NAMES, "full": _HIDDEN}

_collected: dict[str, dict[str, object]] = {}


def collect_builtins() -> None:
    """Collect the built-in names in advance, because this writes to each name's memory page."""
    _collected.update((kind, _collect_names(kind)) for kind in _EXCLUDED_NAMES)


def _collect_names(kind: str) -> dict[str, object]:
    return {name: value for name, value in vars(builtins).items() if name not in _EXCLUDED_NAMES[kind]}


def build_guest_builtins(
    kind: str, guarded_import: Callable[..., object], guarded: Mapping[str, Callable[..., object]]
) -> dict[str, object]:
    """Return a new dictionary of built-in names with a guarded importer.

    Args:
        kind: ``safe`` or ``full``.
        guarded_import: the function that import statements call.
        guarded: functions that replace some safe built-ins, by name.

    Raises: ValueError, if `kind` has another value.
    """
    if kind not in _EXCLUDED_NAMES:
        raise ValueError(f"builtins must be 'safe' or 'full', not {kind!r}")
    names = _collected.pop(kind, None) or _collect_names(kind)
    names["__import__"] = hide_closure(guarded_import)
    if kind == "safe":
        names.update((name, hide_closure(function)) for name, function in guarded.items())
    return names


def hide_closure(function: Callable[..., _T]) -> Callable[..., _T]:
    """Wrap a function so that its module and closure aren't accessible as attributes.

    The wrapper is a cache of size 0, which calls the function every time and stores nothing.
    """
    wrapper: Callable[..., _T] = _cached(function, 0, False, None)
    for name in _SHOWN:
        setattr(wrapper, name, getattr(function, name))
    return wrapper
