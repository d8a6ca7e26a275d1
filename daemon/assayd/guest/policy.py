"""The runtime policy of a child: the audit hook, the guarded importer, and guards for computed names.

The policy provides feedback and an audit trail, not isolation: its events can make a submission fail, but
never make it pass.

Static rules check only literal attribute names. The guards check all other names at run time. They refuse
special names, attributes that lead to frames and code, attributes of modules that the policy doesn't list,
methods of paths that access files, and attributes of streams that lead to the underlying file.
"""

from __future__ import annotations

import _frozen_importlib
import builtins
import sys
from sys import _getframe
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

from . import builtin_names
from .builtin_names import guest_builtins, make_opaque
from .hook import AuditHook, FrameClassifier, HookRules, block_os_exit
from .importer import ImportGuard
from .values import is_real_subclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .reporter import Reporter
    from .requests import BeginFrame

builtin_names.isolate_builtins(globals())

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


class RuntimePolicy:
    """The permissions of guest code in this process, enforced as far as Python allows."""

    def __init__(self, attempt: BeginFrame, work_path: str, reporter: Reporter) -> None:
        self._places = FrameClassifier(work_path)
        self._reporter = reporter
        self._imports = ImportGuard(attempt.imports, self._places, reporter)
        rules = HookRules(
            enforce=attempt.imports.enforce,
            allow_exec=attempt.allow_exec,
            allow_fork=attempt.limits.max_processes > 1,
            allow_inet=attempt.allow_inet,
            allow_native=self._imports.allows("ctypes"),
        )
        self._hook = AuditHook(rules, self._places, reporter)
        self.attributes = AttributeGuard()
        guarded = self.attributes.guarded_functions()
        self._builtins = {
            kind: guest_builtins(kind, self._imports.import_guarded, guarded) for kind in ("safe", "full")
        }

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the folders of libraries."""
        return self._places.libraries

    def install(self) -> None:
        """Install the audit hook, which can't be removed."""
        sys.addaudithook(self._hook)

    def builtins(self, kind: str, submitted: str) -> dict[str, object]:
        """Return the built-in names for a submitted file, with the guarded importer.

        The names were collected before the fork; collecting them in the child would write to every memory
        page that contains a name.

        Args:
            kind: ``safe`` or ``full``.
            submitted: the file name under which the text is compiled; events refer to its lines.
        """
        self._places.submitted[submitted] = submitted
        if kind == "safe":
            self._install_field_checks()
        return self._builtins[kind]

    def _install_field_checks(self) -> None:
        places, reporter = self._places, self._reporter
        if not check_field_names(places, reporter):
            self._imports.call_until_true(lambda: check_field_names(places, reporter))

    def block_os_exit(self) -> None:
        """Refuse calls of ``os._exit`` in this process, so that the program always sends its record."""
        block_os_exit(self._places, self._reporter)

    def start_attributing(self) -> None:
        """Record that submitted code now begins to run; earlier operations aren't attributed to it."""
        self._imports.start_judging_names()

    def share_builtins(self, submitted: Mapping[str, str]) -> dict[str, object]:
        """Add the guarded importer to the interpreter's built-in names, and return these names.

        Programs use this if guest code and a library must share the same built-in names, e.g. because a
        test replaces ``open``.

        Args:
            submitted: the file names under which texts are compiled, each with the name to display.
        """
        self._places.submitted.update(submitted)
        self._imports.share()
        vars(builtins)["__import__"] = make_opaque(self._imports.import_shared)
        vars(_frozen_importlib)["_gcd_import"] = make_opaque(self._imports.import_by_name)
        return vars(builtins)
