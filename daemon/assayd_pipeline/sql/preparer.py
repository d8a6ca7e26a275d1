"""The program that prepares statements against a submission's tables, as the checks see it.

Checks open no database. An analysis worker installs what does; without it nothing can be prepared, and no
rewrite is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Where a step's tables come from: a database file or schema, earlier statements, and CSV files."""

    content: bytes = b""
    schema: str = ""
    made: tuple[str, ...] = ()
    heads: Mapping[str, str] = field(default_factory=dict)


class Prepared(Protocol):
    """Tables against which statements can be prepared."""

    def complaint(self, statement: str) -> str | None:
        """Return SQLite's complaint about one statement; None if it can be prepared."""
        ...

    def run(self, statement: str) -> None:
        """Run a statement if it makes or changes tables, for the statements after it."""
        ...

    def names(self, what: str) -> list[str]:
        """Return the names of all ``column``s, ``table``s or ``function``s, or of the ``column of TABLE``."""
        ...


Opener = Callable[[Tables], Prepared]

_installed: list[Opener] = []


def install(opener: Opener) -> None:
    """Have statements prepared by `opener`."""
    _installed[:] = [opener]


def prepared(tables: Tables) -> Prepared | None:
    """Return tables to prepare statements against; None if nothing was installed."""
    return _installed[0](tables) if _installed else None
