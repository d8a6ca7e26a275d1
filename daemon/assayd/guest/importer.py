"""The guarded ``__import__``, which judges the imports that guest code causes.

Import statements of libraries aren't judged. If a module is imported by a name that is known only at run
time, guest code is assumed to have chosen the name, regardless of the caller: ``mock.patch("…")``,
``import_string("…")``. If guest code has separate built-in names, only guest code can call the guard; if it
shares the interpreter's built-in names, the guard determines who called it, and how.
"""

from __future__ import annotations

import _frozen_importlib
import builtins
from sys import _getframe

from . import builtin_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType
    from typing import Any

    from .hook import CallerLocation, FrameClassifier
    from .reporter import Reporter
    from .requests import ImportRules

    _Names = Mapping[str, object] | None
    _Asked = tuple[str, _Names, _Names, Sequence[str] | None, int]
    """What ``__import__`` was called with: name, global names, local names, wanted names, level."""

builtin_names.isolate_builtins(globals())

_real_import = builtins.__import__
_bootstrap: Any = _frozen_importlib
_real_by_name = _bootstrap._gcd_import

_OURS = __name__.partition(".")[0]
_FREE = frozenset({"__future__"})
_IMPORTED_BY_C = frozenset(
    {
        "_compat_pickle", "_io", "_strptime", "asyncio.events", "codecs", "collections.abc", "copyreg",
        "datetime", "encodings", "functools", "io", "json.decoder", "linecache", "locale", "numbers",
        "sqlite3.dump", "time", "traceback", "typing", "warnings",
    }
)  # fmt: skip
"""What functions written in C import while they run (``datetime.strptime``: ``_strptime``).

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
        self._begun = False
        self._import_statement = -1
        self._on_import: Callable[[], bool] | None = None
        self._named_before: set[str] = set()

    def call_until_true(self, look: Callable[[], bool]) -> None:
        """Call this function after each import by guest code until it returns True."""
        self._on_import = look

    def share(self) -> None:
        """Prepare for calls of `shared`, before any guest code runs."""
        from opcode import opmap  # imported only if built-in names are shared

        self._import_statement = opmap["IMPORT_NAME"]

    def start_judging_names(self) -> None:
        """Judge modules that are imported by name from now on; earlier names aren't guest code's choice."""
        self._begun = True

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
        """Import a module in the place of ``__import__``. Raises: ImportError, if the policy refuses it."""
        return self._guard_import(_getframe(1), (name, globals, locals, fromlist, level))

    def import_shared(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - the names of the function it replaces
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> object:
        """Import a module in place of ``__import__``, if libraries share the built-in names."""
        frame = self._places.find_guest_caller()
        asked = (name, globals, locals, fromlist, level)
        if frame is not None:
            return self._guard_import(frame, asked)
        caller = _getframe(1)
        by_c = type(fromlist) is list and not fromlist
        stated = by_c or caller.f_code.co_code[caller.f_lasti] == self._import_statement
        if not level and not stated:
            self._judge_by_name(str.__str__(name), caller)
        return _real_import(*asked)

    def import_by_name(self, name: str, package: str | None = None, level: int = 0) -> object:
        """Import a module for ``importlib.import_module``. Raises: ImportError, if it is refused."""
        if not level:
            self._judge_by_name(str.__str__(name), _getframe(1))
        return _real_by_name(name, package, level)

    def _judge_by_name(self, name: str, caller: FrameType) -> None:
        """Judge an import whose name isn't part of an import statement."""
        place, asking = self._places.locate(caller), self._places.skip_import_frames(caller)
        module = _top_module(str(asking.f_globals.get("__name__")))
        own = self._places.is_library(asking) and module in {_top_module(name), _OURS}
        if own or name in _PATCHED_BY_TESTS or name in self._named_before:
            return
        if self._begun:
            self._judge(name, (), place)
        else:
            self._named_before.add(name)

    def _guard_import(self, frame: FrameType, asked: _Asked) -> object:
        name, names, local_names, fromlist, level = asked
        by_c = type(fromlist) is list and not fromlist
        # Plain copies, because a subclass could give the import a different answer.
        wanted = tuple(str.__str__(item) for item in fromlist or ())
        name = str.__str__(name)
        if name not in _FREE and not (by_c and name in _IMPORTED_BY_C):
            self._judge(_absolute_name(name, names, level), wanted, self._places.locate(frame))
        found = _real_import(name, names, local_names, wanted, level)
        if self._on_import is not None and self._on_import():
            self._on_import = None
        return found

    def _judge(self, name: str, wanted: tuple[str, ...], place: CallerLocation) -> None:
        for module, allowed in self._judge_names(name, wanted):
            refused = self._rules.enforce and not allowed
            self._reporter.event(
                "import", module, allowed=allowed, enforced=refused, file=place.file, line=place.line
            )
            if refused:
                raise ImportError(f"import of {module!r} is not allowed by the policy", name=module)

    def _judge_names(self, name: str, wanted: tuple[str, ...]) -> list[tuple[str, bool]]:
        """Return the imported names (a module or its submodules), each with the policy's decision."""
        inner = [f"{name}.{item}" for item in wanted if item != "*"]
        if self.allows(name):
            refused = [module for module in inner if _covers(self._rules.denied, module)]
            return [(module, False) for module in refused] or [(name, True)]
        if inner and all(self.allows(module) for module in inner):
            return [(module, True) for module in inner]
        return [(name, False)]


def _absolute_name(name: str, names: _Names, level: int) -> str:
    """Return the module to which a relative import refers; if unknown, return the name with its dots."""
    if not level:
        return name
    package = names.get("__package__") if type(names) is dict else None
    parts = package.split(".") if type(package) is str and package else []
    if level > len(parts):
        return "." * level + name
    return ".".join([*parts[: len(parts) - level + 1], *([name] if name else [])])


def _top_module(module: str) -> str:
    return module.partition(".")[0]


def _covers(names: frozenset[str], module: str) -> bool:
    while module:
        if module in names:
            return True
        module = module.rpartition(".")[0]
    return False
