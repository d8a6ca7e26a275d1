"""Keeps dataclasses from compiling what is no name: they make text of the names of fields, and run it.

A class statement has names only. Classes made by a call (``TypedDict("T", {…})``, ``Enum("E", {…})``, a
metaclass), and fields whose name was changed, bring any text there. Refusing it here closes all at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from keyword import iskeyword
from sys import _getframe
from typing import Any

from . import private
from .builtins_safe import opaque
from .frames_above import FrameClassifier
from .reporter import Reporter

private.isolate(globals())

_MAKERS = ("_init_fn", "_repr_fn", "_frozen_get_del_attr", "_tuple_str", "_hash_fn")
"""The functions of the library that make text of fields; each is given them in a list or tuple."""
_Field = dataclasses.Field
_EVENT = "compile"


def check_field_names(places: FrameClassifier, reporter: Reporter) -> None:
    """Put a check before what makes text of fields, in this process; what it refuses is reported."""

    def refuse() -> None:
        place = places.locate(_getframe(2))
        detail = "a field of a dataclass whose name is no name"
        reporter.event(_EVENT, detail, allowed=False, enforced=True, file=place.file, line=place.line)
        raise PermissionError(f"{detail} is not allowed by the policy")

    for name in _MAKERS:
        setattr(dataclasses, name, opaque(_checked(getattr(dataclasses, name), refuse)))


def _checked(make: Callable[..., Any], refuse: Callable[[], None]) -> Callable[..., Any]:
    def checked(*arguments: Any, **named: Any) -> Any:
        for argument in (*arguments, *named.values()):
            if type(argument) in {list, tuple} and not all(map(_is_named, argument)):
                refuse()
        return make(*arguments, **named)

    return checked


def _is_named(field: object) -> bool:
    """Return whether a field is a plain one, with a name that can only be a name."""
    if type(field) is not _Field:
        return False
    name = field.name
    return type(name) is str and str.isidentifier(name) and not iskeyword(name)
