"""Guards for computed attribute names: `getattr` and similar functions, for code with safe built-ins.

Static rules check only literal names. These guards check all other names at run time. They refuse special
names, attributes that lead to frames and code, attributes of modules that the policy doesn't list, methods
of paths that access files, and attributes of streams that lead to the underlying file.
"""

from __future__ import annotations

import builtins
import sys
from types import (
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    TracebackType,
)

from . import private
from .values import is_real_subclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

private.isolate_builtins(globals())

_getattr, _hasattr, _setattr, _delattr = getattr, hasattr, setattr, delattr
_vars = builtins.vars
_SPECIAL = frozenset(
    {
        "__annotations__", "__args__", "__class__", "__doc__", "__match_args__", "__module__", "__name__",
        "__origin__",
        "__parameters__", "__qualname__",
    }
)  # fmt: skip
"""Special names that may be read, and not changed: plain text and types."""
_OF_RUNNING_CODE = (CodeType, CoroutineType, FrameType, GeneratorType, TracebackType)
_OF_THE_LANGUAGE = (
    *_OF_RUNNING_CODE, BaseException, BuiltinFunctionType, FunctionType, MethodType, ModuleType,
    classmethod, object,
    property, staticmethod, super, type,
)  # fmt: skip
_OPERATOR = type(object.__init__)
_LEADING_ON = frozenset(
    name
    for kind in _OF_THE_LANGUAGE
    for name, value in vars(kind).items()
    if name.startswith("__") and type(value) is not _OPERATOR
) | {
    "__getattr__",
    "__getattribute__",
    "__setattr__",
    "__delattr__",
    "__builtins__",
    "__loader__",
    "__spec__",
}
"""Special names that lead from an object to code or namespaces; methods of operators do not."""
_INTERNALS = frozenset(
    name for kind in _OF_RUNNING_CODE for name in dir(kind) if "_" in name and not name.startswith("__")
) | {"mro", "_convert_", "_module"}
_STREAM_PARTS = frozenset({"buffer", "detach", "raw"})
_OF_THE_CONTAINER = frozenset({"absolute", "cwd", "expanduser", "home"})
"""Methods of paths that tell about the container, and touch no file."""
_ABSENT = object()


class AttributeGuard:
    """A guard of access to attributes by computed names; until module names are set, it allows none."""

    def __init__(self) -> None:
        self._names: Mapping[str, frozenset[str]] = {}

    def set_allowed_names(self, names: Mapping[str, frozenset[str]]) -> None:
        """Set, for each module, the names that may be accessed as computed names."""
        self._names = names

    def guarded_functions(self) -> dict[str, Callable[..., object]]:
        """Return the guarded functions by the names of the built-in functions that they replace."""

        def getattr(value: object, name: str, default: object = _ABSENT, /) -> object:  # noqa: A001
            name = self._require_allowed(value, name)
            return _getattr(value, name) if default is _ABSENT else _getattr(value, name, default)

        def hasattr(value: object, name: str, /) -> bool:  # noqa: A001
            return _hasattr(value, self._require_allowed(value, name))

        def setattr(value: object, name: str, to: object, /) -> None:  # noqa: A001
            _setattr(value, self._require_changeable(value, name), to)

        def delattr(value: object, name: str, /) -> None:  # noqa: A001
            _delattr(value, self._require_changeable(value, name))

        return {
            "getattr": getattr,
            "hasattr": hasattr,
            "setattr": setattr,
            "delattr": delattr,
            "vars": _get_fields,
        }

    def guard_formatter(self) -> None:
        """Make ``string.Formatter`` follow only attributes that `getattr` allows."""
        string = __import__("string")
        split = string._string.formatter_field_name_split
        checked = self._require_allowed

        def get_field(self: object, field_name: str, args: object, kwargs: object) -> tuple[object, object]:
            first, rest = split(field_name)
            value = self.get_value(first, args, kwargs)  # type: ignore[attr-defined]  # it is a Formatter
            for is_attribute, name in rest:
                value = _getattr(value, checked(value, name)) if is_attribute else value[name]
            return value, first

        string.Formatter.get_field = get_field

    def _require_allowed(self, value: object, name: object) -> str:
        """Return the name as plain text. Raises: TypeError or PermissionError, if the name is refused."""
        if not is_real_subclass(name, str):
            raise TypeError("attribute name must be string")
        plain = str.__str__(name)
        if plain in _SPECIAL:
            return plain
        if plain in _LEADING_ON or plain in _INTERNALS:
            raise PermissionError(f"the attribute {plain!r} can't be accessed by a computed name")
        if is_real_subclass(value, ModuleType):
            module = _vars(value).get("__name__")
            if type(module) is not str or plain not in self._names.get(module, ()):
                raise PermissionError(f"{module}.{plain} isn't allowed")
        elif _accesses_files(value, plain):
            raise PermissionError(f"{plain!r} accesses files, which don't exist here")
        return plain

    def _require_changeable(self, value: object, name: object) -> str:
        if is_real_subclass(value, ModuleType):
            raise PermissionError("a module can't be changed")
        plain = self._require_allowed(value, name)
        if plain in _SPECIAL:
            raise PermissionError(f"the attribute {plain!r} can't be changed")
        return plain


def _get_fields(value: object, /) -> dict[str, object]:
    """Return the fields of an object like ``vars(x)``; refuse the fields of modules and classes."""
    if is_real_subclass(value, ModuleType) or is_real_subclass(value, type):
        raise PermissionError("vars() of a module or class isn't allowed")
    return _vars(value)


def _accesses_files(value: object, name: str) -> bool:
    """Return whether a path's method accesses files, or whether a stream's attribute leads to its file."""
    pathlib, io = sys.modules.get("pathlib"), sys.modules.get("io")
    kind = value if is_real_subclass(value, type) else type(value)
    if pathlib is not None and issubclass(kind, pathlib.PurePath):
        return (
            name not in _OF_THE_CONTAINER
            and _hasattr(pathlib.Path, name)
            and not _hasattr(pathlib.PurePath, name)
        )
    return io is not None and name in _STREAM_PARTS and issubclass(kind, io.IOBase)
