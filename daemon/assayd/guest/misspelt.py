"""Finds the name meant by a misspelled attribute, key or imported name among existing objects.

This module reads only names of attributes, and keys that are plain strings, using the methods of the
built-in types. The result is part of the exception's record, which the guest controls.
"""

from __future__ import annotations

import sys

from . import private
from .around import find_failing_line, iter_names
from .near import find_nearest
from .values import is_real_subclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .shown import Texts

private.isolate_builtins(globals())

_MOST_DICTS = 20
_MOST_KEYS = 1000
_namespace = type.__dict__["__dict__"].__get__
_ModuleType = type(sys)
_CANNOT_IMPORT = ("cannot import name ", " from ")
"""The quoted names in an ImportError's message."""
_MOST_CHARS = 80


def find_similar_name(problem: BaseException, texts: Texts) -> tuple[str, bool] | None:
    """Return the most similar name, and whether it is certain; None if no name is similar."""
    try:
        if is_real_subclass(problem, AttributeError):
            name, value = problem.name, problem.obj
            return (
                find_nearest(name, _iter_attribute_names(value))
                if type(name) is str and value is not None
                else None
            )
        if is_real_subclass(problem, KeyError):
            key = BaseException.__dict__["args"].__get__(problem)[0]
            if type(key) is str and (inside := _find_nested_key(key, problem, texts)) is not None:
                return inside, False
            keys = list(_iter_visible_keys(problem, texts)) if type(key) is str else []
            return (find_nearest(key, keys) or _find_key_with_affix(key, keys)) if keys else None
        if is_real_subclass(problem, ImportError):
            name, origin = _parse_import_error(str(problem))
            module = sys.modules.get(origin)
            return find_nearest(name, _iter_attribute_names(module)) if name and module is not None else None
    except BaseException:  # noqa: BLE001 - code of guest classes may have a part in it
        return None
    return None


def _find_nested_key(key: str, problem: BaseException, texts: Texts) -> str | None:
    """Return the path of a key in a nested dict on the failing line, e.g. ``raw['data']['items']``."""
    place = find_failing_line(problem, texts)
    if place is None:
        return None
    frame, line = place
    for name in dict.fromkeys(iter_names(line)):
        value = frame.f_locals.get(name, frame.f_globals.get(name))
        for outer, inner in list(dict.items(value))[:_MOST_DICTS] if type(value) is dict else ():
            if type(outer) is str and type(inner) is dict and dict.__contains__(inner, key):
                return f"{name}[{outer!r}][{key!r}]"[:_MOST_MEANT]
    return None


_MOST_MEANT = 60


def _find_key_with_affix(key: str, keys: list[str]) -> tuple[str, bool] | None:
    """Return the only key that begins or ends with this one, e.g. ``amount_eur`` for ``amount``, or None."""
    found = {one for one in keys if len(key) > 2 and (one.startswith(f"{key}_") or one.endswith(f"_{key}"))}
    return (found.pop(), False) if len(found) == 1 else None


def _parse_import_error(message: str) -> tuple[str, str]:
    """Parse ``cannot import name 'a' from 'b'``; return empty strings for other messages."""
    before, name, between, origin, *_ = [*message.split("'"), "", "", "", ""]
    fits = (before, between) == _CANNOT_IMPORT and max(len(name), len(origin)) <= _MOST_CHARS
    return (name, origin) if fits else ("", "")


def _iter_attribute_names(value: object) -> Iterator[str]:
    if is_real_subclass(value, _ModuleType):
        yield from (name for name in dict.keys(vars(value)) if type(name) is str and name[:1] != "_")
        return
    kinds = value if is_real_subclass(value, type) else type(value)
    for kind in type.__dict__["__mro__"].__get__(kinds):
        yield from (name for name in _namespace(kind) if type(name) is str and name[:2] != "__")
    fields = (
        None
        if is_real_subclass(value, type)
        else object.__getattribute__(value, "__dict__")
        if _has_fields(value)
        else None
    )
    if type(fields) is dict:
        yield from (name for name in dict.keys(fields) if type(name) is str)


def _has_fields(value: object) -> bool:
    try:
        object.__getattribute__(value, "__dict__")
    except AttributeError:
        return False
    return True


def _iter_visible_keys(problem: BaseException, texts: Texts) -> Iterator[str]:
    """Yield the keys of the dicts whose names occur in the failing line."""
    place = find_failing_line(problem, texts)
    if place is None:
        return
    found, line = place
    named = dict.fromkeys(iter_names(line))
    values = [space[name] for name in named for space in (found.f_locals, found.f_globals) if name in space]
    seen = 0
    for value in values:
        for one in _iter_dicts(value):
            seen += 1
            if seen > _MOST_DICTS:
                return
            yield from _iter_string_keys(one)


def _iter_dicts(value: object, depth: int = 0) -> Iterator[Mapping[object, object]]:
    """Yield a dict, and the dicts that it or a list contains, up to two levels deep."""
    if is_real_subclass(value, dict):
        yield value
        inner = list(dict.values(value))[:_MOST_DICTS] if dict.__len__(value) <= _MOST_KEYS else []
    elif is_real_subclass(value, list) or is_real_subclass(value, tuple):
        inner = list(value)[:3] if type(value) in (list, tuple) else []
    else:
        fields = object.__getattribute__(value, "__dict__") if _has_fields(value) and depth == 0 else None
        inner = list(dict.values(fields))[:_MOST_DICTS] if type(fields) is dict else []
    if depth < 2:
        for one in inner:
            yield from _iter_dicts(one, depth + 1)


def _iter_string_keys(one: Mapping[object, object]) -> Iterator[str]:
    if is_real_subclass(one, dict) and dict.__len__(one) <= _MOST_KEYS:
        yield from (key for key in dict.keys(one) if type(key) is str)
