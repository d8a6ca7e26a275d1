"""Represents values that JSON lacks: dates, paths, UUIDs, bytes, enum members, dataclasses and others.

Each value is sent as an object with its kind and its form: ``{"$py": "date", "value": "2024-03-01"}``. No
module needs to be loaded: as long as a module isn't loaded, its classes have no instances.
"""

from __future__ import annotations

import sys

from . import private
from .arrays import build_array_form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date, datetime, time, timedelta
else:
    from _datetime import date, datetime, time, timedelta

private.isolate_builtins(globals())

TAG = "$py"
VALUE = "value"
TYPE = "type"
"""Key for the name of the enum member or of the dataclass, in addition to the value."""


class ValueForm:
    """The form of a value. `nested`: whether it contains a value of guest code, to be rendered separately.

    An empty `tag` means that the value is replaced by the contained value.
    """

    __slots__ = ("kind", "nested", "of", "tag", "value")

    def __init__(
        self, tag: str, value: object, kind: type, *, of: str | None = None, nested: bool = False
    ) -> None:
        self.tag, self.value, self.kind, self.of, self.nested = tag, value, kind, of, nested


def build_form(value: object) -> ValueForm | None:
    """Return the form of a value; None if the value has no form.

    Raises: any exception that code of the value's class raises; for example, a time zone may be guest code.
    """
    kind = type(value)
    if (found := build_array_form(value)) is not None:
        tag, inner, of = found
        return ValueForm(tag, inner, kind, of=of, nested=True)
    for base, tag, write in _WRITERS:
        if issubclass(kind, base):
            return ValueForm(tag, write(value), base)
    for module, name, tag, read in _LOADED:
        known = _get_loaded_class(module, name)
        if known is not None and issubclass(kind, known):
            return ValueForm(tag, read(value), kind)
    known = _get_loaded_class("enum", "Enum")
    if known is not None and issubclass(kind, known):
        member = object.__getattribute__(value, "_name_")
        of = f"{_name(kind)}.{str.__str__(member)}" if type(member) is str else _name(kind)
        return ValueForm("enum", object.__getattribute__(value, "_value_"), kind, of=of, nested=True)
    namespaces = (_namespace(one) for one in type.__dict__["__mro__"].__get__(kind))
    fields = next((names[_FIELDS] for names in namespaces if _FIELDS in names), None)
    if type(fields) is dict and "dataclasses" in sys.modules:
        names = [name for name, one in fields.items() if type(name) is str and _is_plain_field(one)]
        given = {name: object.__getattribute__(value, name) for name in names}
        return ValueForm("dataclass", given, kind, of=_name(kind), nested=True)
    return None


_FIELDS = "__dataclass_fields__"
_namespace = type.__dict__["__dict__"].__get__


def _is_plain_field(field: object) -> bool:
    known = _get_loaded_class("dataclasses", "Field")
    if known is None or type(field) is not known:
        return False
    return repr(object.__getattribute__(field, "_field_type")) == "_FIELD"


def _get_loaded_class(module: str, name: str) -> type | None:
    loaded = sys.modules.get(module)
    found = None if loaded is None else vars(loaded).get(name)
    return found if isinstance(found, type) else None


def _name(kind: type) -> str:
    name = type.__dict__["__qualname__"].__get__(kind)
    return name[-128:] if type(name) is str else "object"


def _base64(value: bytes | bytearray) -> str:
    from binascii import b2a_base64  # imported only for bytes

    return b2a_base64(value, newline=False).decode()


def _timedelta_parts(value: timedelta) -> list[int]:
    parts = (timedelta.__dict__[name] for name in ("days", "seconds", "microseconds"))
    return [part.__get__(value) for part in parts]


def _decimal_text(value: object) -> str:
    return f"{sys.modules['decimal'].Decimal.__str__(value)}"


def _uuid_text(value: object) -> str:
    return f"{sys.modules['uuid'].UUID.__str__(value)}"


def _path_text(value: object) -> str:
    return f"{sys.modules['pathlib'].PurePath.__str__(value)}"


# A datetime is a date, so it comes first.
_WRITERS: tuple[tuple[type, str, Callable[..., object]], ...] = (
    (bytes, "bytes", _base64),
    (bytearray, "bytes", _base64),
    (datetime, "datetime", datetime.isoformat),
    (date, "date", date.isoformat),
    (time, "time", time.isoformat),
    (timedelta, "timedelta", _timedelta_parts),
)
_LOADED: tuple[tuple[str, str, str, Callable[[object], str]], ...] = (
    ("decimal", "Decimal", "decimal", _decimal_text),
    ("uuid", "UUID", "uuid", _uuid_text),
    ("pathlib", "PurePath", "path", _path_text),
)
