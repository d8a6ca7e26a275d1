"""The runtime policy of a child: the audit hook, the guarded importer, and guards for computed names.

The policy provides feedback and an audit trail, not isolation: its events can make a submission fail, but
never make it pass.

Static rules check only literal attribute names. The guards check all other names at run time. They refuse
special names, attributes that lead to frames and code, attributes of modules that the policy doesn't list,
methods of paths that access files, and attributes of streams that lead to the underlying file.

The guarded ``__import__``, which judges the imports that guest code causes.

Import statements of libraries aren't judged. If a module is imported by a name that is known only at run
time, guest code is assumed to have chosen the name, regardless of the caller: ``mock.patch("…")``,
``import_string("…")``. If guest code has separate built-in names, only guest code can call the guard; if it
shares the interpreter's built-in names, the guard determines who called it, and how.
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
from .builtin_names import build_guest_builtins, hide_closure
from .hook import AuditHook, FrameClassifier, HookRules, block_os_exit
from .values import is_real_subclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .hook import CallerLocation
    from .reporter import Reporter
    from .requests import BeginFrame, ImportRules

    _Names = Mapping[str, object] | None
    _Asked = tuple[str, _Names, _Names, Sequence[str] | None, int]
    """The arguments of ``__import__``: name, global names, local names, wanted names, level."""

builtin_names.isolate_builtins(globals())

_real_import = builtins.__import__
_bootstrap: Any = _frozen_importlib
_real_by_name = _bootstrap._gcd_import

_OWN_PACKAGE = __name__.partition(".")[0]
_ALWAYS_ALLOWED = frozenset({"__future__"})
_IMPORTED_BY_C = frozenset(
    {
        "_compat_pickle", "_io", "_strptime", "asyncio.events", "codecs", "collections.abc", "copyreg",
        "datetime", "encodings", "functools", "io", "json.decoder", "linecache", "locale", "numbers",
        "sqlite3.dump", "time", "traceback", "typing", "warnings",
    }
)  # fmt: skip
"""Modules that functions written in C import while they run (``datetime.strptime``: ``_strptime``).

The interpreter calls the importer of the frame below, which is the guest's, and passes an empty list of
names; an import statement passes None or a tuple.
"""


_PATCHED_BY_TESTS = frozenset({"builtins"})
"""Harmless modules that tests may name although they can't import them: ``patch("builtins.open")``."""


class ImportGuard:
    """A guard that reports all imports by guest code, and refuses forbidden ones in the mode `enforce`."""

    def __init__(self, rules: ImportRules, places: FrameClassifier, reporter: Reporter) -> None:
        self._rules = rules
        self._places = places
        self._reporter = reporter
        self._is_checking_names = False
        self._import_statement = -1
        self._on_import: Callable[[], bool] | None = None
        self._named_before: set[str] = set()

    def call_after_imports(self, look: Callable[[], bool]) -> None:
        """Call this function after each import by guest code until it returns True."""
        self._on_import = look

    def share(self) -> None:
        """Prepare for calls of `import_shared`, before any guest code runs."""
        from opcode import opmap  # imported only if built-in names are shared

        self._import_statement = opmap["IMPORT_NAME"]

    def start_checking_names(self) -> None:
        """Start checking imports by name. Before this call, guest code can't have chosen a name."""
        self._is_checking_names = True

    def allows(self, module: str) -> bool:
        """Return whether the policy allows an import of the dotted name, regardless of the mode."""
        if _covers(self._rules.denied, module):
            return False
        if self._rules.exact:
            return module in self._rules.allowed
        return _covers(self._rules.allowed, module)

    def import_guarded(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - the names of the function it replaces
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> object:
        """Import a module instead of ``__import__``. Raises: ImportError, if the policy refuses it."""
        return self._guard_import(_getframe(1), (name, globals, locals, fromlist, level))

    def import_shared(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - the names of the function it replaces
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> object:
        """Import a module instead of ``__import__``, if libraries share the built-in names.

        Raises: ImportError, if guest code requests a module that the policy refuses.
        """
        frame = self._places.find_guest_caller()
        asked = (name, globals, locals, fromlist, level)
        if frame is not None:
            return self._guard_import(frame, asked)
        caller = _getframe(1)
        by_c = type(fromlist) is list and not fromlist
        stated = by_c or caller.f_code.co_code[caller.f_lasti] == self._import_statement
        if not level and not stated:
            self._check_import_by_name(str.__str__(name), caller)
        return _real_import(*asked)

    def import_by_name(self, name: str, package: str | None = None, level: int = 0) -> object:
        """Import a module for ``importlib.import_module``. Raises: ImportError, if it is refused."""
        if not level:
            self._check_import_by_name(str.__str__(name), _getframe(1))
        return _real_by_name(name, package, level)

    def _check_import_by_name(self, name: str, caller: FrameType) -> None:
        """Check an import by name, i.e. without an import statement, against the policy.

        Names of imports before guest code runs are allowed from then on. Raises: ImportError, if it is
        refused.
        """
        place, asking = self._places.locate(caller), self._places.skip_import_frames(caller)
        module = _get_top_level_module(str(asking.f_globals.get("__name__")))
        own = self._places.is_library(asking) and module in {_get_top_level_module(name), _OWN_PACKAGE}
        if own or name in _PATCHED_BY_TESTS or name in self._named_before:
            return
        if self._is_checking_names:
            self._judge(name, (), place)
        else:
            self._named_before.add(name)

    def _guard_import(self, frame: FrameType, asked: _Asked) -> object:
        name, names, local_names, fromlist, level = asked
        by_c = type(fromlist) is list and not fromlist
        # Plain copies, because a subclass could give the import a different answer.
        wanted = tuple(str.__str__(item) for item in fromlist or ())
        name = str.__str__(name)
        if name not in _ALWAYS_ALLOWED and not (by_c and name in _IMPORTED_BY_C):
            self._judge(_resolve_relative_name(name, names, level), wanted, self._places.locate(frame))
        found = _real_import(name, names, local_names, wanted, level)
        if self._on_import is not None and self._on_import():
            self._on_import = None
        return found

    def _judge(self, name: str, wanted: tuple[str, ...], place: CallerLocation) -> None:
        for module, allowed in self._check_names(name, wanted):
            refused = self._rules.enforce and not allowed
            self._reporter.event(
                "import", module, allowed=allowed, enforced=refused, file=place.file, line=place.line
            )
            if refused:
                raise ImportError(f"import of {module!r} is not allowed by the policy", name=module)

    def _check_names(self, name: str, wanted: tuple[str, ...]) -> list[tuple[str, bool]]:
        """Return the imported names (a module or its submodules), each with the policy's decision.

        If some submodules of an allowed module are denied, return only these.
        """
        inner = [f"{name}.{item}" for item in wanted if item != "*"]
        if self.allows(name):
            refused = [module for module in inner if _covers(self._rules.denied, module)]
            return [(module, False) for module in refused] or [(name, True)]
        if inner and all(self.allows(module) for module in inner):
            return [(module, True) for module in inner]
        return [(name, False)]


def _resolve_relative_name(name: str, names: _Names, level: int) -> str:
    """Return the absolute name of a relative import. If it is unknown, return the name with its dots."""
    if not level:
        return name
    package = names.get("__package__") if type(names) is dict else None
    parts = package.split(".") if type(package) is str and package else []
    if level > len(parts):
        return "." * level + name
    return ".".join([*parts[: len(parts) - level + 1], *([name] if name else [])])


def _get_top_level_module(module: str) -> str:
    return module.partition(".")[0]


def _covers(names: frozenset[str], module: str) -> bool:
    while module:
        if module in names:
            return True
        module = module.rpartition(".")[0]
    return False


_getattr, _hasattr, _setattr, _delattr = getattr, hasattr, setattr, delattr
_vars = builtins.vars
_READ_ONLY_NAMES = frozenset(
    {
        "__annotations__", "__args__", "__class__", "__doc__", "__match_args__", "__module__", "__name__",
        "__origin__",
        "__parameters__", "__qualname__",
    }
)  # fmt: skip
"""Special names that code can read but not change: plain strings and types."""
_RUNNING_CODE_TYPES = (CodeType, CoroutineType, FrameType, GeneratorType, TracebackType)
_LANGUAGE_TYPES = (
    *_RUNNING_CODE_TYPES, BaseException, BuiltinFunctionType, FunctionType, MethodType, ModuleType,
    classmethod, object,
    property, staticmethod, super, type,
)  # fmt: skip
_OPERATOR = type(object.__init__)
_ESCAPE_NAMES = frozenset(
    name
    for kind in _LANGUAGE_TYPES
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
    name for kind in _RUNNING_CODE_TYPES for name in dir(kind) if "_" in name and not name.startswith("__")
) | {"mro", "_convert_", "_module"}
_STREAM_PARTS = frozenset({"buffer", "detach", "raw"})
_ENVIRONMENT_METHODS = frozenset({"absolute", "cwd", "expanduser", "home"})
"""Methods of paths that read the container's working or home directory, but access no file."""
_NO_DEFAULT = object()


class AttributeGuard:
    """A guard of access to attributes by computed names.

    Until `set_allowed_names` is called, it allows no attribute of a module except special names.
    """

    def __init__(self) -> None:
        self._names: Mapping[str, frozenset[str]] = {}

    def set_allowed_names(self, names: Mapping[str, frozenset[str]]) -> None:
        """Set, for each module, the names that may be accessed as computed names."""
        self._names = names

    def guarded_functions(self) -> dict[str, Callable[..., object]]:
        """Return the guarded functions by the names of the built-in functions that they replace."""

        def getattr(value: object, name: str, default: object = _NO_DEFAULT, /) -> object:  # noqa: A001
            name = self._require_allowed(value, name)
            return _getattr(value, name) if default is _NO_DEFAULT else _getattr(value, name, default)

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
        if plain in _READ_ONLY_NAMES:
            return plain
        if plain in _ESCAPE_NAMES or plain in _INTERNALS:
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
        if plain in _READ_ONLY_NAMES:
            raise PermissionError(f"the attribute {plain!r} can't be changed")
        return plain


def _get_fields(value: object, /) -> dict[str, object]:
    """Return the fields of an object like ``vars(x)``.

    Raises: PermissionError, if the object is a module or class.
    """
    if is_real_subclass(value, ModuleType) or is_real_subclass(value, type):
        raise PermissionError("vars() of a module or class isn't allowed")
    return _vars(value)


def _accesses_files(value: object, name: str) -> bool:
    """Return whether a path's method accesses files, or whether a stream's attribute leads to its file."""
    pathlib, io = sys.modules.get("pathlib"), sys.modules.get("io")
    kind = value if is_real_subclass(value, type) else type(value)
    if pathlib is not None and issubclass(kind, pathlib.PurePath):
        return (
            name not in _ENVIRONMENT_METHODS
            and _hasattr(pathlib.Path, name)
            and not _hasattr(pathlib.PurePath, name)
        )
    return io is not None and name in _STREAM_PARTS and issubclass(kind, io.IOBase)


_CODE_GENERATORS = ("_init_fn", "_repr_fn", "_frozen_get_del_attr", "_tuple_str", "_hash_fn")
"""Functions of `dataclasses` that generate source code from fields, which they get as a list or tuple.

From Python 3.13 on, some source code is generated elsewhere, and all of it passes through
`_FuncBuilder.add_fn`.
"""
_FIELDS, _LISTED = "fields", "field_list"
"""Local variables that contain the fields in the caller of `_FuncBuilder.add_fn`."""
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

    def has_valid_name(field: Any) -> bool:
        """Return whether a field is a plain field whose name is an identifier, but not a keyword."""
        if type(field) is not kind:
            return False
        name = field.name
        return type(name) is str and str.isidentifier(name) and not iskeyword(name)

    builder = getattr(dataclasses, "_FuncBuilder", None)
    if builder is not None:
        builder.add_fn = hide_closure(_check_caller_fields(builder.add_fn, has_valid_name, refuse))
    for name in (
        _CODE_GENERATORS if builder is None else filter(dataclasses.__dict__.__contains__, _CODE_GENERATORS)
    ):
        setattr(
            dataclasses,
            name,
            hide_closure(_check_arguments(getattr(dataclasses, name), has_valid_name, refuse)),
        )
    return True


def _check_arguments(
    make: Callable[..., Any], has_valid_name: Callable[[Any], bool], refuse: Callable[[], None]
) -> Callable[..., Any]:
    def checked(*arguments: Any, **named: Any) -> Any:
        for argument in (*arguments, *named.values()):
            if type(argument) in {list, tuple} and not all(map(has_valid_name, argument)):
                refuse()
        return make(*arguments, **named)

    return checked


def _check_caller_fields(
    add: Callable[..., Any], has_valid_name: Callable[[Any], bool], refuse: Callable[[], None]
) -> Callable[..., Any]:
    def checked(*arguments: Any, **named: Any) -> Any:
        above = _getframe(1).f_locals
        fields = above[_FIELDS]  # added text contains them; a library that is built differently adds none
        fields = (*(fields.values() if type(fields) is dict else fields), *above.get(_LISTED, ()))
        if not all(map(has_valid_name, fields)):
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
            kind: build_guest_builtins(kind, self._imports.import_guarded, guarded)
            for kind in ("safe", "full")
        }

    @property
    def libraries(self) -> tuple[str, ...]:
        """Return the folders that contain the standard library and installed libraries."""
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
            self._imports.call_after_imports(lambda: check_field_names(places, reporter))

    def block_os_exit(self) -> None:
        """Refuse calls of ``os._exit`` in this process, so that the program always sends its record."""
        block_os_exit(self._places, self._reporter)

    def start_attributing(self) -> None:
        """Record that submitted code now begins to run. Imports by name before this aren't checked."""
        self._imports.start_checking_names()

    def share_builtins(self, submitted: Mapping[str, str]) -> dict[str, object]:
        """Add the guarded importer to the interpreter's built-in names, and return these names.

        Programs use this if guest code and a library must share the same built-in names, e.g. because a
        test replaces ``open``.

        Args:
            submitted: the file names under which texts are compiled, each with the name to display.
        """
        self._places.submitted.update(submitted)
        self._imports.share()
        vars(builtins)["__import__"] = hide_closure(self._imports.import_shared)
        vars(_frozen_importlib)["_gcd_import"] = hide_closure(self._imports.import_by_name)
        return vars(builtins)
