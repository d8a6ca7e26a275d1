"""The interface to the reader of database files: it takes bytes and returns a description of the tables.

Kinds never open an untrusted database. The analysis worker installs the function that does, once per
process.
"""

from __future__ import annotations

from collections.abc import Callable

CatalogReader = Callable[[bytes, int], str]
"""Receives the file, and the number of rows per table to show."""

_installed: list[CatalogReader] = []


def install(read: CatalogReader) -> None:
    """Set the function that reads the databases of later calls."""
    _installed[:] = [read]


def describe(content: bytes, rows: int = 0) -> str:
    """Return a database file's tables with columns and keys, or the reason why it can't be read."""
    if not _installed:
        return "(nothing that reads databases was installed in this process)"
    return _installed[0](content, rows)
