"""Unit programs: what a unit can be. One file each; the file's name is the program's name.

A program is a module with

    IN_PYTHON: bool                                    # whether guest code runs in this very process
    PAIRED: bool                                       # whether it talks with a solution (may be missing)
    def run(arguments, context) -> Record: ...          # in the child, after everything is locked down

The record is JSON and goes to the daemon as the unit's result; `status` must be in it, and decides the exit
status of the child: 0 when it is ``returned`` or ``skipped``. The modules that an attempt's units need are
imported before the runner forks.
"""

from __future__ import annotations

import sys

from ..value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Protocol

    from ..policy import RuntimePolicy
    from ..reporter import Record, Reporter

    Arguments = Mapping[str, object]

    class UnitProgram(Protocol):
        """The module of a unit program."""

        IN_PYTHON: bool

        def run(self, arguments: Arguments, context: Context) -> Record:
            """Do what the arguments say and give the result record."""
            ...


PROGRAMS = frozenset({"call", "exec", "pytest", "python", "sql", "tests"})


class Context(Value):
    """A program's context, in addition to its arguments.

    `environment` is the image's, for programs that are started.
    """

    policy: RuntimePolicy
    reporter: Reporter
    environment: Mapping[str, str]


def load_programs(names: Iterable[str]) -> dict[str, UnitProgram]:
    """Import programs of this package and return them by name; omit unknown ones."""
    wanted = [name for name in names if name in PROGRAMS]
    for name in wanted:
        __import__(f"{__name__}.{name}")
    return {name: sys.modules[f"{__name__}.{name}"] for name in wanted}
