"""The interfaces that prepare statements with a submission's tables, and describe a database's tables.

Checks and kinds never open a database. An analysis worker installs functions that do so, once per process.
Without these functions, no statement can be prepared, no rewrite is offered, and no table is described.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSources:
    """The sources of a step's tables: a database file or schema, earlier statements, and CSV files."""

    content: bytes = b""
    schema: str = ""
    made: tuple[str, ...] = ()
    heads: Mapping[str, str] = field(default_factory=dict)


class StatementPreparer(Protocol):
    """The interface that prepares statements against the tables of a step."""

    def find_error(self, statement: str) -> str | None:
        """Return SQLite's error for a statement, or None if the statement can be prepared."""
        ...

    def run(self, statement: str) -> None:
        """Run a statement if it creates or changes tables, so that later statements can use them."""
        ...

    def names(self, what: str) -> list[str]:
        """Return all names for ``column``, ``table``, ``function``, or ``column of TABLE``."""
        ...


Opener = Callable[[TableSources], StatementPreparer]

_installed_openers: list[Opener] = []


def install_opener(opener: Opener) -> None:
    """Set the function that opens tables for later calls of `open_preparer`."""
    _installed_openers[:] = [opener]


def open_preparer(tables: TableSources) -> StatementPreparer | None:
    """Return a preparer of statements for these tables, or None if no function is installed."""
    return _installed_openers[0](tables) if _installed_openers else None


CatalogReader = Callable[[bytes, int], str]
"""A function that describes the tables of a database file, with at most this number of rows per table."""

_catalog_readers: list[CatalogReader] = []


def install_reader(read: CatalogReader) -> None:
    """Set the function that later calls of `describe_database` use."""
    _catalog_readers[:] = [read]


def describe_database(content: bytes, rows: int = 0) -> str:
    """Return the tables of a database file with columns and keys, or the reason why it can't be read."""
    if not _catalog_readers:
        return "(nothing that reads databases was installed in this process)"
    return _catalog_readers[0](content, rows)
