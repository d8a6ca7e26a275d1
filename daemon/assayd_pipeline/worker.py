"""Prepares an analysis worker for pipelines: the programs that read bash, and the reader of databases.

Runs the programs that read bash: shfmt returns the syntax tree, and ShellCheck explains mistakes.

A program reads hostile text from standard input. It inherits the limits of the analysis worker (memory,
written files), and has separate limits on processor time and output, because the size of a tree grows with
the square of its depth. ShellCheck's limits are stricter, because only hints depend on its answer.

Describes the tables of an untrusted SQLite file, and prepares statements against a step's tables.

The file is opened from memory, in a process with limits on memory and time, with SQLite's protections
against a hostile schema; its triggers and views are never run. Statements are prepared on a copy without
rows: only statements that create tables are run, with a step limit and an authorizer that denies all other
operations. Every other statement is only compiled, with `EXPLAIN`.
"""

from __future__ import annotations

import csv
import json
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO

from assayd.errors import AssaydError
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.shell.parse.reader import LinterComment, ParseResult
from assayd_pipeline.sql import preparer
from assayd_pipeline.sql.preparer import TableSources
from assayd_pipeline.sql.read import InvalidSqlCharacter, split, tokenize

TREE_BYTES = 64 * 2**20
"""Maximum bytes of a tree, which has about ninety bytes for each byte of an ordinary script."""
WALL_S = 10.0
CPU_S = 5
_SHFMT_ERROR = re.compile(rb"(?:<standard input>:)?(?P<line>\d+):(?P<column>\d+): (?P<message>[^\n]*)")
_SHFMT_ENVIRONMENT = {"GOMAXPROCS": "1", "GOTRACEBACK": "none"}
TEXT_BYTES = 64 * 2**10
"""Maximum bytes of a script to explain; ShellCheck's time grows faster than the script."""
_MAX_COMMENTS = 200
# GHC's runtime reserves address space by itself; the cap keeps it below the worker's limit.
_SHELLCHECK_ENVIRONMENT = {"LANG": "C.UTF-8", "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent"}
_SUCCESS_STATUSES = (0, 1)
"""The exit codes for a script that was read; others mean that ShellCheck failed."""
MAX_TABLES = 100
MAX_COLUMNS = 200
MOST_VALUE_CHARS = 80
_CHARS = 32 * 2**10
_STEPS = 200_000
"""Maximum number of instructions of SQLite's virtual machine for all statements of one database."""
_SCHEMA_VERBS = ("CREATE", "ALTER", "DROP")
_MAX_COLUMNS = 500
_MAX_NAMES = 2000
_QUERY_BY_TYPE = {
    "table": "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') "
    "UNION SELECT name FROM sqlite_temp_schema",
    "column": "SELECT DISTINCT c.name FROM (SELECT name FROM sqlite_schema UNION "
    "SELECT name FROM sqlite_temp_schema) AS t, pragma_table_info(t.name) AS c",
    "function": "SELECT DISTINCT name FROM pragma_function_list",
}
_PASSED_ACTIONS = (
    "SELECT", "READ", "INSERT", "UPDATE", "DELETE", "RECURSIVE", "FUNCTION", "ALTER_TABLE", "CREATE_TABLE",
    "CREATE_TEMP_TABLE", "CREATE_INDEX", "CREATE_TEMP_INDEX", "CREATE_VIEW", "CREATE_TEMP_VIEW", "DROP_TABLE",
    "DROP_VIEW", "DROP_INDEX", "REINDEX", "TRANSACTION", "SAVEPOINT", "PRAGMA",
)  # fmt: skip
_PERMITTED_ACTIONS = frozenset(getattr(sqlite3, f"SQLITE_{name}") for name in _PASSED_ACTIONS)
_PERMITTED_PRAGMAS = frozenset({"table_info", "table_list", "table_xinfo", "function_list"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLimits:
    """The limits on a program's processor time, run time and output."""

    cpu_s: int
    wall_s: float
    output_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramAnswer:
    """The exit status of a program (negative for a signal), and its output with standard error."""

    status: int
    output: bytes


def ask(
    command: Sequence[str], text: bytes, *, limits: ProgramLimits, environment: Mapping[str, str]
) -> ProgramAnswer:
    """Send text to a program, and return its exit status and its output, truncated at the limit.

    A program that exceeds a limit is killed.

    Raises: OSError, if the program can't be started.
    """
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        cwd="/",
    )
    with process:
        _limit_cpu_time(process.pid, limits.cpu_s)
        return _run_with_limits(process, text, limits)


def _limit_cpu_time(pid: int, seconds: int) -> None:
    """Set a kernel limit on a process's processor time, measured from its start, unless it has ended."""
    with suppress(ProcessLookupError):
        hard = resource.prlimit(pid, resource.RLIMIT_CPU)[1]
        resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, hard))


def _run_with_limits(process: subprocess.Popen[bytes], text: bytes, limits: ProgramLimits) -> ProgramAnswer:
    stdin, stdout = process.stdin, process.stdout
    if stdin is None or stdout is None:
        raise AssaydError("analysis.no_pipes", "a program that reads bash has no pipes")
    watchdog = threading.Timer(limits.wall_s, process.kill)
    watchdog.start()
    try:
        output = _send_and_receive(stdin, stdout, text, limits.output_bytes)
        if len(output) > limits.output_bytes:
            process.kill()
        status = process.wait()
    finally:
        watchdog.cancel()
        process.kill()
    return ProgramAnswer(status=status, output=output)


def _send_and_receive(stdin: IO[bytes], stdout: IO[bytes], text: bytes, most: int) -> bytes:
    """Write the text, which the program reads completely before it responds, and return the output.

    The output is cut after `most` + 1 bytes, so that the caller detects an output above the limit.
    """
    try:
        stdin.write(text)
        stdin.close()
    except BrokenPipeError:
        pass  # The program died, as its status shows.
    return stdout.read(most + 1)


_SHFMT_LIMITS = ProgramLimits(cpu_s=CPU_S, wall_s=WALL_S, output_bytes=TREE_BYTES)


def parse_shell(text: str) -> ParseResult:
    """Parse a bash script with shfmt, and return its tree or the syntax error.

    Raises: AssaydError ``analysis.no_shfmt``, if shfmt can't be run.
    """
    command = (_find_shfmt(), "--language-dialect=bash", "--to-json")
    try:
        answer = ask(command, text.encode(), limits=_SHFMT_LIMITS, environment=_SHFMT_ENVIRONMENT)
    except OSError as problem:
        raise AssaydError("analysis.no_shfmt", f"shfmt can't be run: {problem.strerror}") from problem
    if answer.status == 0 and len(answer.output) <= TREE_BYTES:
        return ParseResult(tree=answer.output)
    found = _SHFMT_ERROR.match(answer.output) if answer.status > 0 else None
    if found is None:
        return ParseResult(message="it is too large or too deeply nested to read")
    message = found["message"].decode("utf-8", "replace")
    return ParseResult(message=message, line=int(found["line"]), column=int(found["column"]))


@cache
def _find_shfmt() -> str:
    """Return the path of shfmt from the package shfmt-py or from PATH.

    Raises: AssaydError ``analysis.no_shfmt``, if shfmt isn't installed.
    """
    folders = (Path(sys.executable).parent, Path(sysconfig.get_path("scripts")))
    beside = (str(folder / "shfmt") for folder in folders if (folder / "shfmt").is_file())
    found = next(beside, None) or shutil.which("shfmt")
    if found is None:
        raise AssaydError("analysis.no_shfmt", "shfmt isn't installed; run: pip install shfmt-py")
    return found


_SHELLCHECK_LIMITS = ProgramLimits(cpu_s=1, wall_s=2.0, output_bytes=2**20)


@cache
def find_shellcheck() -> str | None:
    """Return the path of ShellCheck, or None if ShellCheck isn't installed."""
    return shutil.which("shellcheck", path="/usr/bin:/usr/local/bin:/bin")


def lint_shell(text: str) -> tuple[LinterComment, ...]:
    """Return ShellCheck's comments on a script.

    The result is empty if ShellCheck isn't installed or fails, or if the script is too large.
    """
    found, content = find_shellcheck(), text.encode("utf-8", "replace")
    if found is None or len(content) > TEXT_BYTES:
        return ()
    command = (found, "--norc", "--shell=bash", "--format=json1", "-")
    try:
        answer = ask(command, content, limits=_SHELLCHECK_LIMITS, environment=_SHELLCHECK_ENVIRONMENT)
    except OSError:
        return ()  # removed or replaced since it was found: hints are optional
    if answer.status not in _SUCCESS_STATUSES or len(answer.output) > _SHELLCHECK_LIMITS.output_bytes:
        return ()
    return _parse_comments(answer.output)


def _parse_comments(output: bytes) -> tuple[LinterComment, ...]:
    """Parse ShellCheck's comments, or return an empty tuple if one of them lacks a required field."""
    try:
        told = json.loads(output).get("comments", [])
        return tuple(
            LinterComment(
                code=int(each["code"]),
                line=int(each["line"]),
                column=int(each["column"]),
                end_line=int(each["endLine"]),
                end_column=int(each["endColumn"]),
            )
            for each in told[:_MAX_COMMENTS]
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()  # another version's form: hints are optional


def describe_sqlite(content: bytes, rows: int = 0) -> str:
    """Return a line for each table with its columns, types, keys and references, then its first rows.

    Return ``no tables`` for an empty database, and the error in parentheses for an unreadable one.
    """
    if not content:  # An empty file is an empty database, which can't be opened from memory.
        return "no tables"
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(content)
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA query_only=ON")
            return "\n".join(_describe_tables(connection, rows))[:_CHARS] or "no tables"
    except sqlite3.Error as problem:
        return f"(the database can't be read: {problem})"


def _describe_tables(connection: sqlite3.Connection, rows: int) -> Iterator[str]:
    found = connection.execute(
        "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND substr(name, 1, 7) <> 'sqlite_' ORDER BY name"
    ).fetchmany(MAX_TABLES)
    for name, kind in found:
        columns = ", ".join(_describe_columns(connection, str(name))) if kind == "table" else "a view"
        yield f"{name} ({columns})"
        if rows and kind == "table":
            yield from _describe_rows(connection, str(name), rows)


def _describe_rows(connection: sqlite3.Connection, table: str, most: int) -> Iterator[str]:
    """Yield a table's first rows as truncated, JSON-like values, or the error if reading them fails."""
    quoted = table.replace('"', '""')
    try:
        found = connection.execute(f'SELECT * FROM "{quoted}" LIMIT ?', (most,)).fetchall()  # noqa: S608 - quoted
    except sqlite3.Error as problem:
        yield f"  (its rows can't be read: {problem})"
        return
    for row in found:
        yield "  row: " + ", ".join(repr(value)[:MOST_VALUE_CHARS] for value in row[:MAX_COLUMNS])


def _describe_columns(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    referred = {
        str(row[3]): f" -> {row[2]}.{row[4] or 'its key'}"
        for row in connection.execute("SELECT * FROM pragma_foreign_key_list(?)", (table,)).fetchmany(
            MAX_COLUMNS
        )
    }
    for row in connection.execute("SELECT * FROM pragma_table_info(?)", (table,)).fetchmany(MAX_COLUMNS):
        name, kind, required, key = str(row[1]), str(row[2]), bool(row[3]), bool(row[5])
        yield f"{name} {kind}{' PRIMARY KEY' * key}{' NOT NULL' * required}{referred.get(name, '')}".strip()


class SqlitePreparer:
    """An implementation of `preparer.StatementPreparer` that uses a database in memory."""

    def __init__(self, tables: TableSources) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        _set_limits(self._connection)
        if tables.content:
            _create_or_ignore_error(lambda: self._connection.deserialize(tables.content))
        for statement in (*_split_statements(tables.schema), *tables.made):
            self.run(statement)
        for name, head in tables.heads.items():
            _create_or_ignore_error(partial(_create_csv_table, self._connection, name, head))

    def run(self, statement: str) -> None:
        """Run a statement that creates or changes tables, and ignore any other."""
        if statement.lstrip().upper().startswith(_SCHEMA_VERBS):
            _create_or_ignore_error(partial(self._connection.execute, statement))

    def find_error(self, statement: str) -> str | None:
        """Return SQLite's error for a statement, which isn't run, or None if SQLite accepts the statement."""
        try:
            self._connection.execute(f"EXPLAIN {statement}").fetchmany(1)
        except (sqlite3.Error, sqlite3.Warning) as problem:
            return str(problem)
        return None

    def names(self, what: str) -> list[str]:
        """Return the names of all ``table``, ``function`` or ``column`` objects, or of a table's columns.

        For the latter, `what` is ``column of TABLE``. Return an empty list if the step limit is reached.
        """
        table = what.removeprefix("column of ")
        query = _QUERY_BY_TYPE[what] if table == what else "SELECT name FROM pragma_table_info(?)"
        values = () if table == what else (table,)
        try:
            return [str(row[0]) for row in self._connection.execute(query, values).fetchmany(_MAX_NAMES)]
        except sqlite3.Error:
            return []  # The step limit is reached, so fewer names are suggested.


def _set_limits(connection: sqlite3.Connection) -> None:
    left = [_STEPS // 1000]

    def spent() -> int:
        left[0] -= 1
        return left[0] < 0

    for name, count in (("regexp", 2), ("readfile", 1)):  # The functions that are available in steps.
        connection.create_function(name, count, lambda *_: None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200)
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.set_progress_handler(spent, 1000)
    connection.set_authorizer(_authorize)


def _authorize(
    action: int, first: str | None, second: str | None, _schema: str | None, _by: str | None
) -> int:
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() not in _PERMITTED_PRAGMAS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() == "load_extension":
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _PERMITTED_ACTIONS else sqlite3.SQLITE_DENY


def _split_statements(schema: str) -> list[str]:
    try:
        return [schema[one.tokens[0].start : one.tokens[-1].end] for one in split(tokenize(schema))]
    except InvalidSqlCharacter:
        return []  # The schema has its own finding.


def _create_csv_table(connection: sqlite3.Connection, name: str, head: str) -> None:
    delimiter = "\t" if name.lower().endswith(".tsv") else ","
    names = next(csv.reader([head.lstrip("\ufeff")], delimiter=delimiter), [])[:_MAX_COLUMNS]
    columns = ", ".join(_quote_identifier(one.strip() or f"column_{n}") for n, one in enumerate(names, 1))
    connection.execute(f"CREATE TEMP TABLE {_quote_identifier(name)} ({columns})")


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""').replace("\0", "") + '"'


def _create_or_ignore_error(make: Callable[[], object]) -> None:
    """Run an operation that creates tables. A failure is ignored, and fewer statements can be prepared."""
    try:
        make()
    except (sqlite3.Error, sqlite3.Warning, csv.Error):
        return


def install_readers() -> None:
    """Install the readers in this process: shfmt and ShellCheck for bash, SQLite for database files."""
    reader.install_reader(parse_shell)
    reader.install_linter(lint_shell)
    preparer.install_reader(describe_sqlite)
    preparer.install_opener(SqlitePreparer)
