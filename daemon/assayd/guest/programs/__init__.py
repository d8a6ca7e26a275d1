"""Unit programs: what a unit can be. One file each; the file's name is the program's name.

A program is a module with

    IN_PYTHON: bool                                    # whether guest code runs in this very process
    def run(arguments, context) -> Record: ...          # in the child, after everything is locked down

The record is JSON and goes to the daemon as the unit's result; `status` must be in it, and decides the exit
status of the child: 0 when it is ``returned``. All modules are imported before the runner forks.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from ..policy import RuntimePolicy
from ..reporter import Record, Reporter

__all__ = ["Context", "UnitProgram", "Record", "find_programs"]

Arguments = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a program is given beside its arguments.

    `environment` is the image's, for programs that are started.
    """

    policy: RuntimePolicy
    reporter: Reporter
    environment: Mapping[str, str]


class UnitProgram(Protocol):
    """The module of a unit program."""

    IN_PYTHON: bool

    def run(self, arguments: Arguments, context: Context) -> Record:
        """Do what the arguments say and return the result record."""
        ...


def find_programs() -> dict[str, UnitProgram]:
    """Import every program in this package and return them by name."""
    names = sorted(name.removesuffix(".py") for name in os.listdir(os.path.dirname(__file__)))
    return {
        name: cast("UnitProgram", importlib.import_module(f"{__name__}.{name}"))
        for name in names
        if name.isidentifier() and not name.startswith("_")
    }
