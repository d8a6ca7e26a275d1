"""The program that reads a database file's tables, as kinds see it: bytes in, a description out.

Kinds open no file of a stranger. Whoever runs them (the analysis worker) installs what does, once per
process.
"""

from __future__ import annotations

from collections.abc import Callable

CatalogReader = Callable[[bytes, int], str]
"""Gets the file, and how many rows of each table may be shown."""

_installed: list[CatalogReader] = []


def install(read: CatalogReader) -> None:
    """Have all later databases read by `read`."""
    _installed[:] = [read]


def describe(content: bytes, rows: int = 0) -> str:
    """Return the tables of a database file with their columns and keys; why not, where it cannot be read."""
    if not _installed:
        return "(nothing that reads databases was installed in this process)"
    return _installed[0](content, rows)
