"""Defines the interface to the reader of database files, which takes bytes and describes the tables.

Kinds never open an untrusted database. The analysis worker installs a function that does so, once per
process.
"""

from __future__ import annotations

from collections.abc import Callable

CatalogReader = Callable[[bytes, int], str]
"""Receives the file, and the number of rows per table to show."""

_installed: list[CatalogReader] = []


def install_reader(read: CatalogReader) -> None:
    """Set the function that later calls of `describe` use."""
    _installed[:] = [read]


def describe_database(content: bytes, rows: int = 0) -> str:
    """Return the tables of a database file with columns and keys, or the reason why it can't be read."""
    if not _installed:
        return "(nothing that reads databases was installed in this process)"
    return _installed[0](content, rows)
