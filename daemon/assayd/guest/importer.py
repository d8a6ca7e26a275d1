"""The guarded ``__import__``: judges the import statements of guest code, and no others.

What a library imports is the library's business. Where guest code has built-in names of its own, only it
finds the guard there; where it shares the interpreter's, the guard asks who called.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from sys import _getframe
from types import FrameType

from . import private
from .frames_above import Place, Places
from .reporter import Reporter
from .requests import ImportRules

private.isolate(globals())

_real_import = builtins.__import__

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


_IMPORTS_FOR_OTHERS = frozenset({"importorskip"})
"""Functions of libraries that are an import statement of whoever calls them."""

_Names = Mapping[str, object] | None
_Asked = tuple[str, _Names, _Names, Sequence[str] | None, int]
"""What ``__import__`` was called with: name, global names, local names, wanted names, level."""


class ImportGuard:
    """Holds the rules, reports every import of guest code, and refuses where the mode is `enforce`."""

    def __init__(self, rules: ImportRules, places: Places, reporter: Reporter) -> None:
        self._rules = rules
        self._places = places
        self._reporter = reporter

    def allows(self, module: str) -> bool:
        """Return whether an import of the dotted name is allowed, whatever the mode."""
        if _covers(self._rules.denied, module):
            return False
        if self._rules.exact:
            return module in self._rules.allowed
        return _covers(self._rules.allowed, module)

    def guarded(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - the names of the function it replaces
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> object:
        """Stand in for ``__import__``. Raises: ImportError for what the policy refuses."""
        return self._import(_getframe(1), (name, globals, locals, fromlist, level))

    def shared(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - the names of the function it replaces
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> object:
        """Stand in for ``__import__`` among built-in names that libraries use as well."""
        frame = self._places.guest_above(_IMPORTS_FOR_OTHERS)
        asked = (name, globals, locals, fromlist, level)
        return _real_import(*asked) if frame is None else self._import(frame, asked)

    def _import(self, frame: FrameType, asked: _Asked) -> object:
        name, names, local_names, fromlist, level = asked
        by_c = type(fromlist) is list and not fromlist
        # Plain copies: a subclass could say one thing here and another to the import itself.
        wanted = tuple(str.__str__(item) for item in fromlist or ())
        name = str.__str__(name)
        if name not in _FREE and not (by_c and name in _IMPORTED_BY_C):
            self._judge(_absolute(name, names, level), wanted, self._places.locate(frame))
        return _real_import(name, names, local_names, wanted, level)

    def _judge(self, name: str, wanted: tuple[str, ...], place: Place) -> None:
        for module, allowed in self._judged(name, wanted):
            refused = self._rules.enforce and not allowed
            self._reporter.event(
                "import", module, allowed=allowed, enforced=refused, file=place.file, line=place.line
            )
            if refused:
                raise ImportError(f"import of {module!r} is not allowed by the policy", name=module)

    def _judged(self, name: str, wanted: tuple[str, ...]) -> list[tuple[str, bool]]:
        """Return the names that an import asks for: the module, or the submodules that it takes from it."""
        inner = [f"{name}.{item}" for item in wanted if item != "*"]
        if self.allows(name):
            refused = [module for module in inner if _covers(self._rules.denied, module)]
            return [(module, False) for module in refused] or [(name, True)]
        if inner and all(self.allows(module) for module in inner):
            return [(module, True) for module in inner]
        return [(name, False)]


def _absolute(name: str, names: _Names, level: int) -> str:
    """Return the module that a relative import means; its dots, where that cannot be told."""
    if not level:
        return name
    package = names.get("__package__") if type(names) is dict else None
    parts = package.split(".") if type(package) is str and package else []
    if level > len(parts):
        return "." * level + name
    return ".".join([*parts[: len(parts) - level + 1], *([name] if name else [])])


def _covers(names: frozenset[str], module: str) -> bool:
    while module:
        if module in names:
            return True
        module = module.rpartition(".")[0]
    return False
