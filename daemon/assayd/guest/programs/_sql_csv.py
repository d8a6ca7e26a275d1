"""Makes files of the sandbox readable as tables: ``SELECT … FROM "data/sales.csv"`` reads that file.

Each file that the SQL names in this way becomes a temporary table before the first statement runs. The
file's first line contains the column names; all columns have the type TEXT.
"""

from __future__ import annotations

import contextlib
import csv
import os
import re
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence


_NAMED = re.compile(r'"([^"\n]+\.[ct]sv)"|\[([^\]\n]+\.[ct]sv)\]|`([^`\n]+\.[ct]sv)`', re.IGNORECASE)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_FIELD_CHARS = 16 * 2**20


class UnreadableCsv(Exception):
    """An exception raised when a file can't be read as a table."""


def load_files(connection: sqlite3.Connection, text: str) -> dict[str, str]:
    """Create a table for each file that the SQL names; return the errors of files that can't be opened.

    Raises: BadCsv, sqlite3.Error.
    """
    missing: dict[str, str] = {}
    csv.field_size_limit(_MOST_FIELD_CHARS)
    for name in dict.fromkeys("".join(groups) for groups in _NAMED.findall(text)):
        if _is_table(connection, name):
            continue
        try:
            descriptor = open_in_work_dir(name)
        except OSError as problem:
            missing[name] = problem.strerror or "it cannot be opened"
        else:
            _load_table(connection, name, descriptor)
    return missing


def _is_table(connection: sqlite3.Connection, name: str) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE lower(name) = lower(?)", (name,))
    return found.fetchone() is not None


def open_in_work_dir(name: str) -> int:
    """Open a file below the work directory (the current directory) without following links."""
    *folders, last = name.split("/")
    here = os.open(".", _FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER, dir_fd=here) if folder != ".." else _raise_outside()
            os.close(here)
            here = inner
        return os.open(last, _FILE, dir_fd=here)
    finally:
        os.close(here)


def _raise_outside() -> int:
    raise PermissionError(1, "it is outside the sandbox")


def _load_table(connection: sqlite3.Connection, name: str, descriptor: int) -> None:
    with open(descriptor, encoding="utf-8-sig", newline="") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableCsv(f"{name} is not a regular file")
        with _translate_errors(name):
            rows = csv.reader(stream, delimiter="\t" if name.lower().endswith(".tsv") else ",", strict=True)
            columns = _build_column_names(name, next(rows, []))
            table = _quote_name(name)
            connection.execute("BEGIN")
            connection.execute(f"CREATE TEMP TABLE {table} ({', '.join(f'{c} TEXT' for c in columns)})")
            places = ", ".join("?" * len(columns))
            insert = f"INSERT INTO temp.{table} VALUES ({places})"  # noqa: S608 - the name is quoted
            connection.executemany(insert, _pad_rows(name, rows, len(columns)))
            connection.execute("COMMIT")


@contextlib.contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    try:
        yield
    except csv.Error as problem:
        raise UnreadableCsv(f"{name}: {problem}") from None
    except UnicodeDecodeError:
        raise UnreadableCsv(f"{name} is not UTF-8 text") from None


def _build_column_names(name: str, heads: Sequence[str]) -> list[str]:
    """Return the quoted names of the columns, made unique."""
    if not heads:
        raise UnreadableCsv(f"{name} has no first line that names its columns")
    taken: dict[str, int] = {}
    columns = []
    for number, head in enumerate(heads, 1):
        column = head.strip() or f"column_{number}"
        taken[column.lower()] = count = taken.get(column.lower(), 0) + 1
        columns.append(_quote_name(column if count == 1 else f"{column}_{count}"))
    return columns


def _pad_rows(name: str, rows: Iterator[list[str]], width: int) -> Iterator[list[str | None]]:
    for number, row in enumerate(rows, 2):
        if len(row) > width:
            raise UnreadableCsv(f"{name}, record {number}: {len(row)} fields, and {width} columns")
        if row:
            yield [*row, *[None] * (width - len(row))]


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""').replace("\0", "") + '"'
