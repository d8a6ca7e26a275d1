"""Reads the types that code nodes declare and the types of values, and compares them.

Only outer types are compared: ``list[dict]`` requires a list. As in Python, a bool is an int, and an int is
accepted for a float. A value's type is read from its JSON form, including tags, never from the guest's
claims.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from assayd.guest.tagged import TAG, TAGS, VALUE
from assayd.model.submission import JsonValue

ANYTHING = "anything"
"""The meaning of a type that isn't checked."""

_BY_NAME: Mapping[str, frozenset[str]] = {
    **{
        name: frozenset({name})
        for name in (
            "None", "bool", "bytes", "date", "Decimal", "dict", "float", "frozenset", "int", "list", "set",
            "str", "time", "timedelta", "tuple",
        )
    },
    "datetime": frozenset({"datetime"}),
    "UUID": frozenset({"UUID"}),
    **dict.fromkeys(("Path", "PosixPath", "PurePath", "PurePosixPath"), frozenset({"Path"})),
    "NoneType": frozenset({"None"}),
    "Text": frozenset({"str"}),
    "List": frozenset({"list"}),
    "Dict": frozenset({"dict"}),
    "DefaultDict": frozenset({"dict"}),
    "OrderedDict": frozenset({"dict"}),
    "Counter": frozenset({"dict"}),
    "Mapping": frozenset({"dict"}),
    "MutableMapping": frozenset({"dict"}),
    "Set": frozenset({"set", "frozenset"}),
    "FrozenSet": frozenset({"frozenset"}),
    "Tuple": frozenset({"tuple"}),
    "Sequence": frozenset({"list", "tuple", "str", "bytes"}),
}  # fmt: skip
_UNCHECKED = frozenset({"Any", "object"})

_OF_JSON: Mapping[type, str] = {
    type(None): "None",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "list",
    dict: "dict",
}
_OF_TAG: Mapping[str, str] = {"decimal": "Decimal", "path": "Path", "uuid": "UUID"}
_WIDER: Mapping[str, tuple[str, ...]] = {
    "bool": ("int", "float"),
    "int": ("float",),
    "datetime": ("date",),
}
"""The additional declared types that accept a value of a type."""


def meaning(names: Collection[str]) -> frozenset[str]:
    """Return the types that an annotation's names refer to; return `ANYTHING` for unchecked types."""
    found: set[str] = set()
    for name in names:
        found |= _BY_NAME.get(name, {ANYTHING})
    return frozenset(found)


def unknown(names: Collection[str]) -> list[str]:
    """Return the names that don't refer to a known type."""
    return sorted(name for name in names if name not in _BY_NAME and name not in _UNCHECKED)


def type_of(form: JsonValue) -> str:
    """Return the type of a value in its JSON form, or `ANYTHING` for an instance of another class."""
    if isinstance(form, dict) and TAG in form:
        tag = form[TAG]
        known = isinstance(tag, str) and tag in TAGS and form.keys() == {TAG, VALUE}
        return _OF_TAG.get(str(tag), str(tag)) if known else ANYTHING
    return _OF_JSON[type(form)]


def fits(actual: str, declared: Collection[str]) -> bool:
    """Return whether a value's type matches one of the declared types."""
    if ANYTHING in declared:
        return True
    return actual in declared or any(wider in declared for wider in _WIDER.get(actual, ()))


def written(types: Collection[str]) -> str:
    """Return types in the syntax of an annotation: ``list | None``."""
    return " | ".join(sorted(types, key=lambda name: (name == "None", name)))


_CALLS: Mapping[str, frozenset[str]] = {
    "list": frozenset({"tuple", "set", "frozenset"}),
    "set": frozenset({"list", "tuple", "frozenset"}),
    "frozenset": frozenset({"list", "tuple", "set"}),
    "tuple": frozenset({"list", "set", "frozenset"}),
    "int": frozenset({"str", "float", "Decimal"}),
    "float": frozenset({"str", "Decimal"}),
    "str": frozenset({"int", "float", "Decimal", "Path", "UUID", "date", "datetime", "time"}),
    "Decimal": frozenset({"str", "int"}),
    "bool": frozenset({"int", "str", "list", "dict"}),
}
_WAYS: Mapping[tuple[str, str], str] = {
    ("list", "dict"): "list({}.values()), or [{}]",
    ("dict", "list"): "dict(enumerate({}))",
    ("str", "bytes"): "{}.decode()",
    ("bytes", "str"): "{}.encode()",
    ("str", "list"): "', '.join({})",
    ("str", "dict"): "json.dumps({})",
    ("datetime", "str"): "datetime.fromisoformat({})",
    ("date", "str"): "date.fromisoformat({})",
}
_ONE = frozenset({"str", "int", "float", "bool", "bytes", "Decimal", "datetime", "date"})


def conversion(actual: str, declared: Collection[str], value: str) -> str | None:
    """Return code that converts a value to a declared type, or None if no usual conversion exists."""
    for wanted in sorted(declared):
        if (way := _WAYS.get((wanted, actual))) is not None:
            return way.replace("{}", value)
        if actual in _CALLS.get(wanted, ()):
            return f"{wanted}({value})"
        if wanted == "list" and actual in _ONE:
            return f"[{value}]"
    return None
