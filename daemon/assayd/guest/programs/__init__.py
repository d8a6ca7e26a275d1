"""The programs that a unit can run, each in a file with the program's name, and the parts that they share.

A program is a module with

    IN_PYTHON: bool                                    # whether guest code runs in this process
    PAIRED: bool                                       # whether it talks with a solution (may be missing)
    def run(arguments, context) -> Record: ...          # in the child, after everything is locked down

The record is JSON and is sent to the daemon as the unit's result. It must contain `status`, which determines
the exit status of the child: 0 for ``returned`` or ``skipped``. All modules that an attempt's units need are
imported before the runner forks. Programs for submitted Python texts share how texts are read and compiled,
and how they run as a module.
"""

from __future__ import annotations

import sys

from .. import builtin_names
from ..substitutes import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Protocol

    from ..policy import RuntimePolicy
    from ..reporter import Record, Reporter

    Arguments = Mapping[str, object]

    class UnitProgram(Protocol):
        """The module that implements a unit program."""

        IN_PYTHON: bool

        def run(self, arguments: Arguments, context: Context) -> Record:
            """Run the program with the given arguments, and return the result record."""
            ...

    from collections.abc import Mapping
    from types import CodeType, ModuleType
    from typing import TypeVar

    _T = TypeVar("_T")

builtin_names.isolate_builtins(globals())


PROGRAMS = frozenset({"call", "exec", "pytest", "python", "sql", "tests"})

_Module = type(sys)


class Context(Value):
    """The context of a program, in addition to its arguments.

    `environment` is the image's environment; programs of the image are started with it.
    """

    policy: RuntimePolicy
    reporter: Reporter
    environment: Mapping[str, str]


def load_programs(names: Iterable[str]) -> dict[str, UnitProgram]:
    """Import programs of this package, and return them by name. Omit unknown programs."""
    wanted = [name for name in names if name in PROGRAMS]
    for name in wanted:
        __import__(f"{__name__}.{name}")
    return {name: sys.modules[f"{__name__}.{name}"] for name in wanted}


class SubmittedText(Value):
    """A submitted text, together with the names that it can use."""

    source: str
    filename: str
    builtins: str

    def compile(self) -> CodeType:
        """Compile the text. Raises the compiler's exceptions, including MemoryError and RecursionError."""
        return compile(self.source, self.filename, "exec", dont_inherit=True)

    def module(self, name: str, policy: RuntimePolicy, namespace: Mapping[str, object]) -> ModuleType:
        """Create the module in which the text runs, which is also available as ``__main__``."""
        module = _Module(name)
        module.__dict__.update(namespace)
        module.__dict__["__builtins__"] = policy.builtins(self.builtins, self.filename)
        module.__dict__["__file__"] = self.filename
        sys.modules[name] = sys.modules["__main__"] = module
        sys.argv = [self.filename]
        return module


def read_text(arguments: Mapping[str, object]) -> SubmittedText:
    """Return the fields that the arguments of all Python programs contain."""
    return SubmittedText(
        source=get_argument(arguments, "source", str),
        filename=get_argument(arguments, "filename", str),
        builtins=get_argument(arguments, "builtins", str),
    )


def get_argument(arguments: Mapping[str, object], name: str, kind: type[_T]) -> _T:
    """Return an argument. Raises: TypeError, if the argument doesn't have exactly this type."""
    value = arguments.get(name)
    if type(value) is not kind:
        raise TypeError(f"argument {name} is not a {kind.__name__}")
    return value
