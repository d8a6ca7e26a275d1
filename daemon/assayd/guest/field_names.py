"""Prevents code injection through dataclasses, which generate and run source built from field names.

A class statement contains only valid names. In classes created by a call (``TypedDict("T", {…})``,
``Enum("E", {…})``, a metaclass), and in fields whose name was changed, a name can be any text. A check
before code generation covers all of these cases.
"""

from __future__ import annotations

import sys
from sys import _getframe

from . import private
from .builtins_safe import make_opaque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .frames_above import FrameClassifier
    from .reporter import Reporter

private.isolate_builtins(globals())

_MAKERS = ("_init_fn", "_repr_fn", "_frozen_get_del_attr", "_tuple_str", "_hash_fn")
"""The functions of the library that make text of fields; each is given them in a list or tuple.

From Python 3.13 on, some of it is made where the class is, and all of it goes through `_FuncBuilder.add_fn`.
"""
_FIELDS, _LISTED = "fields", "field_list"
"""What holds fields where text was made of them, right before it is added."""
_EVENT = "compile"


def check_field_names(places: FrameClassifier, reporter: Reporter) -> bool:
    """Make the functions that generate code from field names check the names and report refusals.

    Returns:
        Whether the check is installed; False as long as the library hasn't been imported.
    """
    dataclasses = sys.modules.get("dataclasses")
    if dataclasses is None:
        return False
    from keyword import iskeyword  # which the library imports as well

    def refuse() -> None:
        place = places.locate(_getframe(2))
        detail = "a dataclass field whose name isn't an identifier"
        reporter.event(_EVENT, detail, allowed=False, enforced=True, file=place.file, line=place.line)
        raise PermissionError(f"{detail} is not allowed by the policy")

    kind = dataclasses.Field

    def is_named(field: Any) -> bool:
        """Return whether a field is a plain field whose name is an identifier, but not a keyword."""
        if type(field) is not kind:
            return False
        name = field.name
        return type(name) is str and str.isidentifier(name) and not iskeyword(name)

    builder = getattr(dataclasses, "_FuncBuilder", None)
    if builder is not None:
        builder.add_fn = make_opaque(_check_caller_fields(builder.add_fn, is_named, refuse))
    for name in _MAKERS if builder is None else filter(dataclasses.__dict__.__contains__, _MAKERS):
        setattr(
            dataclasses, name, make_opaque(_check_arguments(getattr(dataclasses, name), is_named, refuse))
        )
    return True


def _check_arguments(
    make: Callable[..., Any], is_named: Callable[[Any], bool], refuse: Callable[[], None]
) -> Callable[..., Any]:
    def checked(*arguments: Any, **named: Any) -> Any:
        for argument in (*arguments, *named.values()):
            if type(argument) in {list, tuple} and not all(map(is_named, argument)):
                refuse()
        return make(*arguments, **named)

    return checked


def _check_caller_fields(
    add: Callable[..., Any], is_named: Callable[[Any], bool], refuse: Callable[[], None]
) -> Callable[..., Any]:
    def checked(*arguments: Any, **named: Any) -> Any:
        above = _getframe(1).f_locals
        fields = above[_FIELDS]  # added text contains them; a library that is built differently adds none
        fields = (*(fields.values() if type(fields) is dict else fields), *above.get(_LISTED, ()))
        if not all(map(is_named, fields)):
            refuse()
        return add(*arguments, **named)

    return checked
