"""The programs that a unit can run, each in a file with the program's name.

A program is a module with

    IN_PYTHON: bool                                    # whether guest code runs in this process
    PAIRED: bool                                       # whether it talks with a solution (may be missing)
    def run(arguments, context) -> Record: ...          # in the child, after everything is locked down

The record is JSON and is sent to the daemon as the unit's result. It must contain `status`, which determines
the exit status of the child: 0 for ``returned`` or ``skipped``. All modules that an attempt's units need are
imported before the runner forks.
"""

from __future__ import annotations

import sys

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


PROGRAMS = frozenset({"call", "exec", "pytest", "python", "sql", "tests"})


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
