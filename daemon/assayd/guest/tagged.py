"""Converts values that JSON can't express to and from tagged objects: ``{"$py": "set", "value": [1, 2]}``.

A rendered value is restored as an equal value of the same type. Plain JSON stays unchanged. A dict is
rendered as a list of pairs if one of its keys is the tag itself or can't be expressed in JSON. Enum members
and dataclass instances are rendered with the name of their class, and can't be restored. The same applies
to instances of other classes, which are rendered as ``object`` with the name of their type.
"""

from __future__ import annotations

from . import builtin_names
from .values import MAX_KEY_CHARS, TAG, VALUE, Renderer, type_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date, datetime, time, timedelta
    from decimal import Decimal

    from .values import Pairs, Rendered
else:
    from _datetime import date, datetime, time, timedelta

builtin_names.isolate_builtins(globals())

FLOATS = ("nan", "inf", "-inf")

Json = object
__all__ = ["FLOATS", "TAG", "TAGS", "VALUE", "render_tagged", "restore_tagged"]


def render_tagged(value: object) -> Rendered:
    """Return the tagged form of a value. `notes` is empty if no information is lost."""
    return _TaggedRenderer().render_whole(value)


def restore_tagged(value: Json) -> object:
    """Return the value of a tagged form. The value can share plain lists and objects with the form.

    Raises: ValueError, TypeError or OverflowError for an unknown tag, or a value that the tag doesn't
    allow.
    """
    if type(value) is list:
        return _restore_all(value)
    if type(value) is not dict:
        return value
    if TAG in value:
        return _restore_tagged(value)
    if _NESTED.isdisjoint(map(type, value.values())):
        return value
    return {key: restore_tagged(element) for key, element in value.items()}


def _restore_all(elements: list[Json]) -> list[object]:
    if _NESTED.isdisjoint(map(type, elements)):
        return elements
    return [restore_tagged(element) for element in elements]


def _restore_tagged(form: dict[str, Json]) -> object:
    tag = form[TAG]
    if form.keys() != {TAG, VALUE} or type(tag) is not str or tag not in _RESTORER_BY_TAG:
        raise ValueError(
            f"an object with {TAG} must also have {VALUE}, and must name one of {', '.join(TAGS)}"
        )
    return _RESTORER_BY_TAG[tag](form[VALUE])


def _restore_elements(value: Json) -> list[object]:
    if type(value) is not list:
        raise ValueError("its value isn't an array")
    return _restore_all(value)


def _restore_pairs(value: Json) -> dict[object, object]:
    pairs = _restore_elements(value)
    for pair in pairs:
        if type(pair) is not list or len(pair) != 2:
            raise ValueError("its value isn't an array of pairs")
    found = {pair[0]: pair[1] for pair in pairs if type(pair) is list}
    if len(found) != len(pairs):
        raise ValueError("a key is repeated")
    return found


def _restore_text(value: Json) -> str:
    if type(value) is not str:
        raise ValueError("its value isn't text")
    return value


def _restore_bytes(value: Json) -> bytes:
    from binascii import a2b_base64  # imported only for bytes

    return a2b_base64(_restore_text(value).encode("ascii"), strict_mode=True)


def _restore_float(value: Json) -> float:
    if value not in FLOATS:
        raise ValueError(f"its value must be one of {', '.join(FLOATS)}")
    return float(_restore_text(value))


def _restore_decimal(value: Json) -> Decimal:
    from decimal import Decimal  # imported only if one occurs

    try:
        return Decimal(_restore_text(value))
    except ArithmeticError:
        raise ValueError("its value isn't a decimal number") from None


def _restore_timedelta(value: Json) -> timedelta:
    parts = [part for part in _restore_elements(value) if type(part) is int]
    if len(parts) != 3:
        raise ValueError("its value isn't an array of days, seconds and microseconds")
    return timedelta(*parts)


def _restore_uuid(value: Json) -> object:
    from uuid import UUID  # imported only if one occurs

    return UUID(_restore_text(value))


def _restore_path(value: Json) -> object:
    from pathlib import Path  # imported only if one occurs

    return Path(_restore_text(value))


_NESTED = frozenset({list, dict})
_RESTORER_BY_TAG: Mapping[str, Callable[[Json], object]] = {
    "tuple": lambda value: tuple(_restore_elements(value)),
    "set": lambda value: set(_restore_elements(value)),
    "frozenset": lambda value: frozenset(_restore_elements(value)),
    "dict": _restore_pairs,
    "bytes": _restore_bytes,
    "float": _restore_float,
    "decimal": _restore_decimal,
    "datetime": lambda value: datetime.fromisoformat(_restore_text(value)),
    "date": lambda value: date.fromisoformat(_restore_text(value)),
    "time": lambda value: time.fromisoformat(_restore_text(value)),
    "timedelta": _restore_timedelta,
    "uuid": _restore_uuid,
    "path": _restore_path,
}
TAGS = tuple(_RESTORER_BY_TAG)


class _TaggedRenderer(Renderer):
    """A renderer that uses tagged values. The depth includes the additional levels of tagged objects."""

    def _render_odd_float(self, value: float, path: str) -> object:
        return self._render_tagged_form("float", float.__repr__(value))

    _NO_FORM = "has no tagged form"

    def _render_mapping(self, pairs: Pairs, path: str, depth: int) -> object:
        if all(_is_plain_key(key) for key, _ in pairs):
            return self._render_object(pairs, path, depth)
        listed = [[key, element] for key, element in pairs]
        return self._render_tagged_form("dict", self._render_array(list(listed), path, depth + 1))

    def _render_sequence(self, base: type, elements: list[object], path: str, depth: int) -> object:
        if base is list:
            return self._render_array(elements, path, depth)
        rendered = self._render_array(elements, path, depth + 1)
        if base is not tuple:
            # Sets have no order; sorting makes equal sets equal texts.
            rendered.sort(key=repr)
        return self._render_tagged_form(base.__name__, rendered)

    def _note_container(self, value: object, base: type, path: str) -> None:
        self._note_subclass(value, base, path)

    def _replace(self, value: object, path: str, problem: str) -> object:
        name = type_name(value)
        self._add_note(path, f"{name} {problem}")
        return {TAG: "object", VALUE: name}


def _is_plain_key(key: object) -> bool:
    return type(key) is str and key != TAG and len(key) <= MAX_KEY_CHARS
