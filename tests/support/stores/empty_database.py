"""An empty database with all tables, created once, because creating it takes longer than most tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from assayd.store.access import FILE, open_database


def lay_database(folder: Path) -> None:
    """Copy the empty database to where a store looks for its own, unless one exists."""
    path = folder / FILE
    if not path.exists():
        path.write_bytes(_empty())


@cache
def _empty() -> bytes:
    with TemporaryDirectory() as folder:
        open_database(Path(folder)).close()
        return Path(folder, FILE).read_bytes()
