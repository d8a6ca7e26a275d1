"""`sql`: run statements on the database that the runner holds.

Arguments: sql, mode (``step``, ``schema`` or ``check``), pragmas, admits (rules), max_rows, max_cell_chars,
max_bytes. Selected rows are printed; the record contains the number of completed statements. A unit that
doesn't end with ``returned`` leaves the database unchanged. See docs/guest-protocol.md.
"""

from __future__ import annotations

import re
import sys
from contextlib import closing

from ..substitutes import Value
from ..workdir import FILE
from . import get_argument
from ._sql_database import ShellFunctions, SqlGuard, UnreadableCsvError, connect, expand_series, load_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

    from ..reporter import Record
    from . import Context

_NAMED_TABLES, _NAMED_COLUMNS, _NAMED_CHARS = 20, 20, 100
_COLUMNS_QUERY = (
    "SELECT m.name, c.name FROM (SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
    "UNION ALL SELECT name FROM sqlite_temp_master WHERE type IN ('table', 'view')) AS m, "
    "pragma_table_info(m.name) AS c"
)


def read_names(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the column names by table, limited to 20 tables with 20 columns each.

    The result is empty if the database can't be read.
    """
    import sqlite3

    found: dict[str, list[str]] = {}
    connection.set_authorizer(None)
    try:
        for table, column in connection.execute(_COLUMNS_QUERY):
            if table in found or len(found) < _NAMED_TABLES:
                columns = found.setdefault(table[:_NAMED_CHARS], [])
                if len(columns) < _NAMED_COLUMNS:
                    columns.append(column[:_NAMED_CHARS])
    except sqlite3.Error:
        return {}
    return found


_BLANK_PATTERN = re.compile(r"(?:[ \t\n\f\r;]|--[^\n]*|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_SUBJECT_PATTERN = re.compile(
    r'near "(.+)": syntax error|unrecognized token: "(.+)"'
    r"|no such (?:column|table|function|index): (?:\w+\.)*(\w+)"
    r"|has no column named (\w+)|(?:table|view|index) (\w+) already exists"
)


class Statement(Value):
    """One statement, which begins with its first word. `number` counts from 1."""

    number: int
    start: int
    text: str


def split_statements(text: str) -> Iterator[Statement]:
    """Return the statements. Comments between statements are ignored."""
    number, start = 0, _skip_blanks(text, 0)
    while start < len(text):
        number, end = number + 1, _find_statement_end(text, start)
        yield Statement(number=number, start=start, text=text[start:end])
        start = _skip_blanks(text, end)


def locate_error(text: str, statement: Statement, message: str) -> tuple[int, int]:
    """Return line and column of an error message's subject. If uncertain, return those of the statement."""
    found = _SUBJECT_PATTERN.search(message)
    name = next(filter(None, found.groups()), None) if found else None
    offset = statement.start
    if name is not None and statement.text.count(name) == 1:
        offset += statement.text.index(name)
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _skip_blanks(text: str, start: int) -> int:
    found = _BLANK_PATTERN.match(text, start)
    return found.end() if found else start


def _find_statement_end(text: str, start: int) -> int:
    import sqlite3

    for semicolon in re.finditer(";", text[start:]):
        end = start + semicolon.end()
        if sqlite3.complete_statement(text[start:end]):
            return end
    return len(text)


_ROWS_AT_ONCE = 200
_CONTROL_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_ESCAPE_BY_CODE = {**_CONTROL_ESCAPES, 9: "\\t", 10: "\\n", 13: "\\r"}


def _format_float(value: float) -> str:
    """Format a number like the sqlite3 shell: with 15 digits, and always with a decimal point."""
    if value - value != 0:  # infinite; SQLite has no NaN
        return "Inf" if value > 0 else "-Inf"
    digits, _, exponent = f"{value:.15g}".partition("e")
    digits = digits if "." in digits else f"{digits}.0"
    return f"{digits}e{exponent}" if exponent else digits


class TablePrinter:
    """A printer of tables that prints a limited number of rows in total, but counts all rows."""

    def __init__(self, *, max_rows: int, max_cell_chars: int) -> None:
        self.rows = 0
        self._left = max_rows
        self._most_chars = max_cell_chars
        self._began = False

    def print_rows(self, number: int, cursor: sqlite3.Cursor) -> None:
        """Print the rows that a statement selects. Run it to its end, even if not all rows are shown."""
        before, room = self.rows, self._left
        self._print_line([name for name, *_ in cursor.description or ()], apart=self._began)
        self._began = True
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            self.rows += len(rows)
            for row in rows[: self._left]:
                self._print_line(row)
            self._left = max(self._left - len(rows), 0)
        selected = self.rows - before
        if selected > room:
            print(f"statement {number}: {selected} rows, {room} shown", file=sys.stderr)

    def _print_line(self, cells: tuple[object, ...] | list[str], *, apart: bool = False) -> None:
        sys.stdout.write("\n" * apart + "\t".join(map(self._format_cell, cells)) + "\n")

    def _format_cell(self, value: object) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, bytes):
            text = f"x'{value[: self._most_chars].hex()}'"
        elif isinstance(value, float):
            text = _format_float(value)
        else:
            text = str(value)[: self._most_chars + 1].translate(_ESCAPE_BY_CODE)
        return text if len(text) <= self._most_chars else text[: self._most_chars] + "…"


_MAX_TABLES, _MAX_COLUMNS, _MOST_NAME_CHARS, _MOST_TYPE_CHARS = 50, 2000, 100, 40
_TABLES_QUERY = (
    "SELECT name FROM main.sqlite_master WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' "
    "AND sql NOT LIKE 'CREATE VIRTUAL%' AND length(name) <= ? ORDER BY name LIMIT ?"
)


def read_tables(connection: sqlite3.Connection, guard: SqlGuard | None = None) -> list[list[object]]:
    """Return ``[name, rows, [column, type, …]]`` for each table.

    The result is empty if the database can't be read.

    Only the catalog is read without the guard, because the guard's profile may refuse access to column
    names.
    """
    import sqlite3

    found: list[list[object]] = []
    columns = 0
    catalog: list[tuple[str, list[str]]] = []
    connection.set_authorizer(None)
    try:
        for (table,) in connection.execute(_TABLES_QUERY, (_MOST_NAME_CHARS, _MAX_TABLES)).fetchall():
            described: list[str] = []
            for row in connection.execute("SELECT name, type FROM pragma_table_info(?, 'main')", (table,)):
                described += [str(row[0])[:_MOST_NAME_CHARS], str(row[1])[:_MOST_TYPE_CHARS]]
            columns += len(described) // 2
            if columns > _MAX_COLUMNS:
                break
            catalog.append((table, described))
        connection.set_authorizer(guard)
        for table, described in catalog:
            quoted = table.replace('"', '""')
            # The name is quoted, and comes from SQLite.
            (rows,) = connection.execute(f'SELECT count(*) FROM main."{quoted}"').fetchone()  # noqa: S608
            found.append([table, rows, described])
    except sqlite3.Error:
        return []
    return found


IN_PYTHON = False

_MAX_SQL_ERROR_CHARS = 2000


_MAX_UNCHANGED = 10
_MAX_TABLE_NAME_CHARS = 100
_CHANGE_PATTERN = re.compile(
    r"(?:INSERT|UPDATE|DELETE|WITH)\b|CREATE\b[^;(]{1,200}\bAS\s+(?:SELECT|WITH)\b", re.IGNORECASE
)
_INTENDED_NOOP_PATTERN = re.compile(
    r"\bOR\s+IGNORE\b|\bON\s+CONFLICT\b|(?<!\bIF\s)\bNOT\s+(?:EXISTS|IN)\b|\bEXCEPT\b|\bIS\s+NULL\b"
    r"|(?:<>|!=)\s*(?:TRIM|LTRIM|RTRIM|LOWER|UPPER|REPLACE|ROUND|CAST)\s*\(|=\s*''|<\s*0\b",
    re.IGNORECASE,
)
"""Statements that repair data or can be repeated, so that it isn't a mistake if they change no row."""


class _UnusableDatabaseError(Exception):
    """An exception raised when the database can't be used, or when it would end up in a forbidden state."""


def run(arguments: Mapping[str, object], context: Context) -> Record:
    """Run the statements in order until one fails, and return the result record.

    In the mode ``check``, only check the database.
    """
    import sqlite3

    mode = get_argument(arguments, "mode", str)
    job = _ScriptRun(arguments, guard=_create_guard(arguments, schema=mode == "schema"))
    try:
        most = get_argument(arguments, "max_bytes", int)
        with closing(connect(FILE, max_bytes=most, schema=mode == "schema")) as connection:
            job.check(connection) if mode == "check" else job.run(connection)
    except (
        sqlite3.Error,
        sqlite3.Warning,
        UnreadableCsvError,
        _UnusableDatabaseError,
        MemoryError,
    ) as problem:
        return job.failed(problem)
    return {"status": "returned", **job.counts, **({"tables": job.tables} if job.tables else {})}


def _has_rows(connection: sqlite3.Connection, table: str) -> bool:
    import sqlite3

    quoted = table.replace('"', '""')
    try:
        # The name is quoted, and comes from SQLite.
        found = connection.execute(f'SELECT 1 FROM "{quoted}" LIMIT 1')  # noqa: S608
        return found.fetchone() is not None
    except sqlite3.Error:  # it is a view of something that no longer exists
        return False


def _create_guard(arguments: Mapping[str, object], *, schema: bool) -> SqlGuard:
    pragmas: list[str] = get_argument(arguments, "pragmas", list)
    admits: list[str] = get_argument(arguments, "admits", list)
    return SqlGuard(schema=schema, pragmas=frozenset(pragmas), admits=frozenset(admits))


class _ScriptRun:
    """The run of one script, with its current statement and the results of earlier statements."""

    def __init__(self, arguments: Mapping[str, object], guard: SqlGuard) -> None:
        self._text = get_argument(arguments, "sql", str)
        self._guard = guard
        self._printer = TablePrinter(
            max_rows=get_argument(arguments, "max_rows", int),
            max_cell_chars=get_argument(arguments, "max_cell_chars", int),
        )
        self._functions = ShellFunctions()
        self._missing: dict[str, str] = {}
        self._current: Statement | None = None
        self._names: dict[str, list[str]] = {}
        self._done = 0
        self._changes = 0
        self._idle: list[list[object]] = []
        self._tables: list[list[object]] = []

    @property
    def counts(self) -> dict[str, object]:
        """Return the numbers of executed statements, selected rows and changed rows.

        `idle` contains the line, verb and table of each statement that changed no row.
        """
        counts = {"statements": self._done, "rows": self._printer.rows, "changes": self._changes}
        return {**counts, "idle": self._idle} if self._idle else {**counts}

    @property
    def tables(self) -> list[list[object]]:
        """Return the tables after the statements. The result is empty unless all statements were run."""
        return self._tables

    def check(self, connection: sqlite3.Connection) -> None:
        """Check that the file is an intact database.

        Raises: _UnusableDatabaseError, if it is malformed; sqlite3.Error, if it can't be read.
        """
        (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if answer != "ok":
            raise _UnusableDatabaseError(f"database disk image is malformed: {answer}")

    def run(self, connection: sqlite3.Connection) -> None:
        """Run all statements.

        Raises: sqlite3.Error, sqlite3.Warning, UnreadableCsvError or MemoryError, if one fails;
        _UnusableDatabaseError, if the script ends inside a transaction.
        """
        import sqlite3

        self._missing = load_files(connection, self._text)
        self._functions.install(connection)
        connection.set_authorizer(self._guard)
        before = connection.total_changes
        for statement in split_statements(self._text):
            self._current = statement
            changed = connection.total_changes
            self._guard.acts.clear()
            try:
                cursor = connection.execute(expand_series(statement.text))
                if cursor.description is not None:
                    self._printer.print_rows(statement.number, cursor)
            except sqlite3.OperationalError:
                self._names = read_names(connection)
                raise
            self._done += 1
            self._changes = connection.total_changes - before
            if connection.total_changes == changed and len(self._idle) < _MAX_UNCHANGED:
                self._record_unchanged(connection, statement)
        if connection.in_transaction:
            raise _UnusableDatabaseError("the step ends inside a transaction: COMMIT is missing")
        self._tables = read_tables(connection, self._guard)

    def _record_unchanged(self, connection: sqlite3.Connection, statement: Statement) -> None:
        """Record a statement that changed no row, although the tables it uses have rows.

        Ignore statements that change rows only under a condition.
        """
        acts = self._guard.acts
        verb, table = next(((verb, table) for verb, table in acts if verb != "READ"), ("", ""))
        if (
            not verb
            or not _CHANGE_PATTERN.match(statement.text)
            or _INTENDED_NOOP_PATTERN.search(statement.text)
        ):
            return
        if verb == "CREATE TABLE" and _has_rows(connection, table):
            return
        reading = verb in {"INSERT", "CREATE TABLE"}
        looked_at = [read for act, read in acts if act == "READ"] if reading else [table]
        if any(_has_rows(connection, name) for name in dict.fromkeys(looked_at[:_MAX_UNCHANGED])):
            line, _ = locate_error(self._text, statement, "")
            self._idle.append([line, verb, table[:_MAX_TABLE_NAME_CHARS]])

    def failed(self, problem: BaseException) -> Record:
        """Return the record of a failure, and print the failure to standard error."""
        message = self._error_message(problem)[:_MAX_SQL_ERROR_CHARS]
        line, column = locate_error(self._text, self._current, message) if self._current else (None, None)
        where = f"line {line}, column {column}: " if line is not None else ""
        print(f"{where}{message}", file=sys.stderr)
        return {
            "status": "failed",
            **self.counts,
            "statement": self._current.number if self._current else None,
            "text": self._current.text[:_MAX_SQL_ERROR_CHARS] if self._current else None,
            "line": line,
            "column": column,
            "message": message,
            "names": self._names,
            "code": getattr(problem, "sqlite_errorname", None),
        }

    def _error_message(self, problem: BaseException) -> str:
        """Return SQLite's error message, with the refused action or the file, which SQLite doesn't name."""
        message = str(problem) or type(problem).__name__
        if getattr(problem, "sqlite_errorname", None) == "SQLITE_AUTH" and self._guard.refused:
            return f"not authorized: {self._guard.refused}"
        if message.startswith("user-defined function") and self._functions.refused:
            return self._functions.refused
        name = message.removeprefix("no such table: ")
        return f'unable to open "{name}": {self._missing[name]}' if name in self._missing else message
