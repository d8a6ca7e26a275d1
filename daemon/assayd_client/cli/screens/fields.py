"""The fields of the first screen: the question and content of each, and the field of an error."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from assayd.errors import RequestError
from assayd_client.cli.generate import Given
from assayd_client.cli.terminal import plain, shorten

MOST_PATHS = 50
DATABASES = ("*.db", "*.sqlite", "*.sqlite3", "*.sql")
INTENT = "intent"
CONTEXT = "context"
"""What an error names that is about no single part of the context."""
OPTION = "option"
DATABASE = "database"
PROVIDER = "provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextField:
    """A field for a part of the context.

    Attributes:
        name: its option of the command line, and its id on the screen.
        key: its name in `context`.
        label: the question.
    """

    name: str
    key: str
    label: str


FIELDS = (
    ContextField(
        name="sample_path", key="sample_paths", label="Sample paths, one per line, or patterns: data/**/*.csv"
    ),
    ContextField(name="example", key="cases", label="Examples that it must pass: one JSON object per line"),
    ContextField(name="file", key="files", label="Files and folders that the code reads, one per line"),
    ContextField(name="input", key="inputs", label="Inputs: path of a JSON file"),
)


def others(takes: frozenset[str]) -> list[str]:
    """Return the context of a kind that has no separate field."""
    return sorted(takes - {DATABASE} - {field.key for field in FIELDS})


def field_of_error(name: str | None) -> str | None:
    """Return the id of the field that an error names, e.g. ``sample_path`` for ``context.sample_paths.0``."""
    first, _, rest = (name or "").partition(".")
    if first in {INTENT, PROVIDER}:
        return first
    if first != "context":
        return None
    if not rest:  # as a whole: something is missing in it
        return CONTEXT
    key = rest.partition(".")[0]
    own = next((field.name for field in FIELDS if field.key == key), None)
    return own or (DATABASE if key == DATABASE else OPTION if key else None)


def entered(given: Given) -> dict[str, list[str]]:
    """Return the content of each field, as lines."""
    return {
        "sample_path": list(given.sample_paths),
        "example": list(given.examples),
        "file": [str(path) for path in given.files],
        "input": [str(given.inputs)] if given.inputs else [],
        OPTION: list(given.options),
    }


def expanded(said: Sequence[str]) -> list[str]:
    """Return paths, with patterns replaced by up to `MOST_PATHS` matching files.

    Raises: RequestError ``paths.none``, for a pattern that matches nothing.
    """
    found: list[str] = []
    for each in said:
        is_pattern = any(mark in each for mark in "*?[")
        matched = sorted(str(path) for path in _glob(each) if path.is_file())
        if is_pattern and not matched:
            raise RequestError("paths.none", f"no file matches {each!r}", field="context.sample_paths")
        found += matched if is_pattern else [each]
    return found[:MOST_PATHS]


def _glob(pattern: str) -> Iterator[Path]:
    path = Path(pattern).expanduser()
    return Path(path.anchor).glob(str(path.relative_to(path.anchor)))


def databases(folder: Path) -> list[tuple[str, str]]:
    """Return the databases and schemas in a folder with their tables, and their paths."""
    found = sorted({path for pattern in DATABASES for path in folder.glob(pattern)})
    return [(shorten(f"{path.name}  {', '.join(_table_names(path))}", 70), str(path)) for path in found]


def _table_names(path: Path) -> Iterator[str]:
    if path.suffix == ".sql":
        yield "a schema"
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            yield from (plain(str(name)) for (name,) in connection.execute(query))
    except sqlite3.Error:
        yield "not readable as SQLite"
