"""Defines the fields of the request screen, with their questions and contents."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from assayd.errors import RequestError
from assayd_client import Document
from assayd_client.cli.generate import GenerateOptions
from assayd_client.cli.terminal import plain, shorten

MOST_PATHS = 50
NAME_CHARS = 128
"""Maximum characters of an example's name."""
DATABASES = ("*.db", "*.sqlite", "*.sqlite3", "*.sql")
INTENT = "intent"
CONTEXT = "context"
"""What an error names that is about no single part of the context."""
CASES = "cases"
OPTION = "option"
DATABASE = "database"
PROVIDER = "provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextField:
    """A field for one part of the context.

    Attributes:
        name: the field's command-line option, and its id on the screen.
        key: the field's name in `context`.
        title: the field's name in errors.
        label: the question that the field asks.
    """

    name: str
    key: str
    title: str
    label: str


FIELDS = (
    ContextField(
        name="sample_path",
        key="sample_paths",
        title="Sample paths",
        label="Sample paths, one per line, or patterns: data/**/*.csv",
    ),
    ContextField(
        name="example",
        key=CASES,
        title="Examples",
        label="Examples that it must pass: one JSON object per line",
    ),
    ContextField(
        name="file",
        key="files",
        title="Files and folders",
        label="Files and folders that the code reads, one per line",
    ),
    ContextField(name="input", key="inputs", title="Inputs", label="Inputs: path of a JSON file"),
)
PLAIN_KEYS = ("sample_paths", CASES)
"""Keys of `context` that errors also name without it."""


def name_fields(message: str) -> str:
    """Return an error in which field titles replace the names of options and context keys."""
    message = message.removeprefix("context: ")
    for field in FIELDS:
        place = rf"\bcontext\.{field.key}(?:\.(\d+)(\.)?)?"
        message = re.sub(place, partial(_name_location, field.title), message)
        key = rf"|\b{field.key}\b" if field.key in PLAIN_KEYS else ""
        message = re.sub(rf"--{field.name.replace('_', '-')}\b{key}", field.title, message)
    return message


def _name_location(title: str, found: re.Match[str]) -> str:
    entry = f", entry {int(found[1]) + 1}" if found[1] else ""
    return f"{title}{entry}{', ' if found[2] else ''}"


def format_case_shape(fields: Mapping[str, str]) -> str:
    """Return the shape of an example, such as ``{"path": …, "expected": {…}}``, or an empty string."""
    parts = (f'"{name}": {"{…}" if form == "object" else "…"}' for name, form in fields.items())
    return f"{{{', '.join(parts)}}}" if fields else ""


def complete_cases(cases: Sequence[Document], fields: Mapping[str, str]) -> list[Document]:
    """Return examples, each with its path as the default name.

    Raises: RequestError ``invalid``, with all missing fields.
    """
    complete = [
        {"name": str(case["path"])[:NAME_CHARS], **case} if "name" in fields and "path" in case else case
        for case in cases
    ]
    missing = [[name for name in fields if name not in case] for case in complete]
    faults = [
        f"example {number}: {', '.join(names)} {'is' if len(names) == 1 else 'are'} missing"
        for number, names in enumerate(missing, 1)
        if names
    ]
    if faults:
        raise RequestError("invalid", "; ".join(faults), field="context.cases")
    return complete


def list_other_parts(takes: frozenset[str]) -> list[str]:
    """Return the parts of a kind's context that have no separate field."""
    return sorted(takes - {DATABASE} - {field.key for field in FIELDS})


def find_field_of_error(name: str | None) -> str | None:
    """Return the id of the field to which an error refers.

    For example, the field of ``context.sample_paths.0`` is ``sample_path``.
    """
    first, _, rest = (name or "").partition(".")
    if first in {INTENT, PROVIDER}:
        return first
    if first != "context":
        return None
    if not rest:  # for the whole field, because something is missing in it
        return CONTEXT
    key = rest.partition(".")[0]
    own = next((field.name for field in FIELDS if field.key == key), None)
    return own or (DATABASE if key == DATABASE else OPTION if key else None)


def list_entered_lines(given: GenerateOptions) -> dict[str, list[str]]:
    """Return the content of each field as a list of lines."""
    return {
        "sample_path": list(given.sample_paths),
        "example": list(given.examples),
        "file": [str(path) for path in given.files],
        "input": [str(given.inputs)] if given.inputs else [],
        OPTION: list(given.options),
    }


def expand_patterns(said: Sequence[str]) -> list[str]:
    """Return at most `MOST_PATHS` paths, after replacing each pattern by the matching files.

    Raises: RequestError ``paths.none``, if a pattern matches nothing.
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


def list_databases(folder: Path) -> list[tuple[str, str]]:
    """Return the databases and schemas in a folder, with the tables and the path of each."""
    found = sorted({path for pattern in DATABASES for path in folder.glob(pattern)})
    return [(shorten(f"{path.name}  {', '.join(_iter_table_names(path))}", 70), str(path)) for path in found]


def _iter_table_names(path: Path) -> Iterator[str]:
    if path.suffix == ".sql":
        yield "a schema"
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            yield from (plain(str(name)) for (name,) in connection.execute(query))
    except sqlite3.Error:
        yield "not readable as SQLite"
