"""Prepares SQLite for submitted statements: restricts it, and adds features of the `sqlite3` shell.

Limits, settings and an authorizer restrict the statements. All actions that aren't listed are refused. The
static rules refuse the same actions earlier and with more detailed findings.

The features are REGEXP, readfile(), generate_series(), and files as tables. `readfile` reads only files below
`data/`. If `generate_series(a, b, c)` is used as a table, it is replaced with a recursive query that has the
same rows; its arguments can't refer to other tables of the statement. ``SELECT … FROM "data/sales.csv"``
reads that file: it becomes a temporary table before the first statement runs. The file's first line contains
the column names; all columns have the type TEXT.
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


_ALLOWED_ACTIONS = (
    "SELECT", "READ", "INSERT", "UPDATE", "DELETE", "RECURSIVE", "TRANSACTION", "SAVEPOINT",
    "ALTER_TABLE", "CREATE_TABLE", "CREATE_TEMP_TABLE", "CREATE_INDEX", "CREATE_TEMP_INDEX",
    "CREATE_VIEW", "CREATE_TEMP_VIEW", "REINDEX",
)  # fmt: skip
_ALLOWED_IN_SCHEMAS = ("CREATE_TRIGGER",)
_REFUSED_ACTIONS = (
    "ATTACH", "DETACH", "DROP_TABLE", "DROP_TEMP_TABLE", "DROP_INDEX", "DROP_TEMP_INDEX", "DROP_VIEW",
    "DROP_TEMP_VIEW", "DROP_TRIGGER", "DROP_TEMP_TRIGGER", "DROP_VTABLE", "CREATE_TRIGGER",
    "CREATE_TEMP_TRIGGER", "CREATE_VTABLE", "ANALYZE", "PRAGMA", "FUNCTION",
)  # fmt: skip
"""Refused actions, listed only for the wording of errors: actions in no list are refused, too."""
_ACTIONS_BY_RULE = {
    "sql.drop": (
        "DROP_TABLE", "DROP_TEMP_TABLE", "DROP_INDEX", "DROP_TEMP_INDEX", "DROP_VIEW", "DROP_TEMP_VIEW",
        "DROP_TRIGGER", "DROP_TEMP_TRIGGER",
    ),
    "sql.trigger": ("CREATE_TRIGGER", "CREATE_TEMP_TRIGGER"),
    "sql.statement": ("ANALYZE",),
}  # fmt: skip
"""Actions by the rule that refuses them; allowed if the profile turns it off or into a warning."""
_VIRTUAL_MODULES = frozenset({"fts3", "fts4", "fts5", "fts5vocab", "rtree", "rtree_i32"})
# The functions with which ALTER TABLE renames and drops.
_ALTERING = frozenset({"sqlite_rename_table", "sqlite_rename_column", "sqlite_drop_column"})
_REFUSED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "writefile", "edit"}) | _ALTERING
_REFUSED_TABLES = frozenset({"sqlite_dbpage"})
_ALLOWED_PRAGMAS = {
    # Foreign keys are enforced anyway, and programs often enable them.
    "foreign_keys": frozenset({"", "1", "on", "true", "yes"}),
    # Full-text tables read this whenever they are opened.
    "data_version": frozenset({""}),
}
"""Allowed PRAGMAs with their allowed arguments, in addition to the read-only ones."""

_SQLITE_LIMITS = (
    ("LENGTH", 16 * 2**20),
    ("SQL_LENGTH", 2**20),
    ("EXPR_DEPTH", 500),
    ("COMPOUND_SELECT", 500),
    ("FUNCTION_ARG", 100),
    ("ATTACHED", 0),
    ("LIKE_PATTERN_LENGTH", 1000),
    ("TRIGGER_DEPTH", 1000),
    ("WORKER_THREADS", 0),
)
_SETTINGS = (
    "locking_mode = EXCLUSIVE",  # no shared memory file next to it
    "temp_store = MEMORY",
    "synchronous = OFF",  # a failed step is discarded as a whole
    "trusted_schema = ON",  # otherwise, triggers couldn't write to full-text tables
    "cell_size_check = ON",
    "mmap_size = 0",
)

_MAX_ACTS = 200
_NO_NAMES: frozenset[str] = frozenset()

_CSV_PATTERN = re.compile(r'"([^"\n]+\.[ct]sv)"|\[([^\]\n]+\.[ct]sv)\]|`([^`\n]+\.[ct]sv)`', re.IGNORECASE)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_FIELD_CHARS = 16 * 2**20


class SqlGuard:
    """An authorizer. `refused` is the last refused action. `acts` contains the changed and read tables."""

    def __init__(
        self, *, schema: bool, pragmas: frozenset[str], admits: frozenset[str] = frozenset()
    ) -> None:
        import sqlite3

        names = [*_ALLOWED_ACTIONS, *(_ALLOWED_IN_SCHEMAS if schema else ())]
        names += [name for rule in sorted(admits) for name in _ACTIONS_BY_RULE.get(rule, ())]
        self._modules = _VIRTUAL_MODULES if "sql.virtual_table" in admits else frozenset()
        self._functions = _REFUSED_FUNCTIONS - _ALTERING if "sql.alter" in admits else _REFUSED_FUNCTIONS
        self._virtual = (sqlite3.SQLITE_CREATE_VTABLE, sqlite3.SQLITE_DROP_VTABLE)
        self._passed = frozenset(getattr(sqlite3, f"SQLITE_{name}") for name in names)
        self._words = {
            getattr(sqlite3, f"SQLITE_{name}"): name.replace("_", " ") for name in _REFUSED_ACTIONS
        }
        self._drops = "sql.drop" in admits
        self._pragmas = pragmas | {"foreign_keys"} if schema else pragmas
        self._pragma, self._function = sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_FUNCTION
        self._ok, self._deny = sqlite3.SQLITE_OK, sqlite3.SQLITE_DENY
        self._verbs = {
            getattr(sqlite3, f"SQLITE_{verb}"): verb for verb in ("INSERT", "UPDATE", "DELETE", "READ")
        } | dict.fromkeys((sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_TEMP_TABLE), "CREATE TABLE")
        self.refused = ""
        self.acts: list[tuple[str, str]] = []

    def __call__(
        self, action: int, first: str | None, second: str | None, _schema: str | None, by: str | None
    ) -> int:
        """Return SQLITE_OK if an action of a statement is allowed, otherwise SQLITE_DENY.

        SQLite calls this method for each action.
        """
        verb = self._verbs.get(action)
        # Reads in a common table expression or a trigger have its name in `by`.
        own = by is None or verb == "READ"
        if verb is not None and first and own and len(self.acts) < _MAX_ACTS:
            if not first.lower().startswith("sqlite_"):
                self.acts.append((verb, first))
        if self._is_allowed(action, (first or "").lower(), (second or "").lower()):
            return self._ok
        named = second if action == self._function else first
        self.refused = f"{self._words.get(action, f'action {action}')} {named or ''}".rstrip()
        return self._deny

    def _is_allowed(self, action: int, first: str, second: str) -> bool:
        if action == self._pragma:
            return first in self._pragmas or second in _ALLOWED_PRAGMAS.get(first, ())
        if action == self._function:
            return second not in self._functions
        if action in self._virtual:
            return second in self._modules and (action == self._virtual[0] or self._drops)
        return action in self._passed and first not in _REFUSED_TABLES


def connect(path: str, *, max_bytes: int, schema: bool) -> sqlite3.Connection:
    """Open the database with all restrictions except the guard. Raises: sqlite3.Error."""
    import sqlite3

    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    connection.text_factory = _text
    for name, most in _SQLITE_LIMITS:
        connection.setlimit(getattr(sqlite3, f"SQLITE_LIMIT_{name}"), most)
    for setting in _SETTINGS:
        connection.execute(f"PRAGMA {setting}")
    connection.execute(f"PRAGMA foreign_keys = {'OFF' if schema else 'ON'}")
    (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
    if journal != "wal":
        connection.execute("PRAGMA journal_mode = MEMORY")
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    connection.execute(f"PRAGMA max_page_count = {max_bytes // page_bytes}")
    return connection


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


class UnreadableCsvError(Exception):
    """An exception raised when a file can't be read as a table."""


def load_files(connection: sqlite3.Connection, text: str) -> dict[str, str]:
    """Create a table for each file that the SQL names, unless a table has this name.

    Return the errors of files that can't be opened, by name.

    Raises: UnreadableCsvError, if a file isn't valid CSV; sqlite3.Error.
    """
    missing: dict[str, str] = {}
    csv.field_size_limit(_MAX_FIELD_CHARS)
    for name in dict.fromkeys("".join(groups) for groups in _CSV_PATTERN.findall(text)):
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
    """Open a file below the work directory (the current directory) without following links.

    Raises: PermissionError, if the path contains ``..``; OSError, if the file can't be opened.
    """
    *folders, last = name.split("/")
    here = os.open(".", _FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER, dir_fd=here) if folder != ".." else _raise_outside_work_dir()
            os.close(here)
            here = inner
        return os.open(last, _FILE, dir_fd=here)
    finally:
        os.close(here)


def _raise_outside_work_dir() -> int:
    raise PermissionError(1, "it is outside the sandbox")


def _load_table(connection: sqlite3.Connection, name: str, descriptor: int) -> None:
    with open(descriptor, encoding="utf-8-sig", newline="") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnreadableCsvError(f"{name} is not a regular file")
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
        raise UnreadableCsvError(f"{name}: {problem}") from None
    except UnicodeDecodeError:
        raise UnreadableCsvError(f"{name} is not UTF-8 text") from None


def _build_column_names(name: str, heads: Sequence[str]) -> list[str]:
    """Return the quoted names of the columns, made unique.

    Raises: UnreadableCsvError, if the first line is missing.
    """
    if not heads:
        raise UnreadableCsvError(f"{name} has no first line that names its columns")
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
            raise UnreadableCsvError(f"{name}, record {number}: {len(row)} fields, and {width} columns")
        if row:
            yield [*row, *[None] * (width - len(row))]


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""').replace("\0", "") + '"'


_READABLE_PREFIX = "data/"
_MAX_BYTES = 16 * 2**20
_MOST_DEPTH = 5
_NO_END = "4294967295"
"""The last number of a series without a second argument, as in the shell."""
_SKIPPED_PATTERN = r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|\Z)"
_SERIES_PATTERN = re.compile(
    rf"{_SKIPPED_PATTERN}|(?P<call>\bgenerate_series\s*\()", re.DOTALL | re.IGNORECASE
)
_DELIM_PATTERN = re.compile(rf"{_SKIPPED_PATTERN}|[(),]", re.DOTALL)
_ALIAS_PATTERN = re.compile(
    r"\s*(?!(?:WHERE|ORDER|GROUP|HAVING|LIMIT|WINDOW|JOIN|LEFT|RIGHT|FULL|INNER|CROSS|NATURAL|ON|USING|UNION|"
    r"EXCEPT|INTERSECT|RETURNING)\b)(?:AS\b|[A-Za-z_\"`])",
    re.IGNORECASE,
)


class ShellFunctions:
    """The functions of one connection. `refused` is the reason for the last refused call, or empty."""

    def __init__(self) -> None:
        self.refused = ""

    def install(self, connection: sqlite3.Connection) -> None:
        """Add the functions to a connection. Raises: sqlite3.Error."""
        connection.create_function("regexp", 2, self._regexp, deterministic=True)
        connection.create_function("readfile", 1, self._readfile)

    def _regexp(self, pattern: object, text: object) -> int | None:
        if pattern is None or text is None:
            return None
        try:
            return int(re.search(str(pattern), str(text)) is not None)
        except re.error as problem:
            self.refused = f"REGEXP: {problem} in the pattern {str(pattern)[:100]!r}"
            raise

    def _readfile(self, path: object) -> bytes | None:
        name = str(path)
        if not name.startswith(_READABLE_PREFIX) or ".." in name.split("/"):
            self.refused = f"not authorized: readfile reads below {_READABLE_PREFIX} only, not {name[:100]!r}"
            raise ValueError(self.refused)
        try:
            descriptor = open_in_work_dir(name)
        except OSError:
            return None  # like the shell's
        with open(descriptor, "rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            self.refused = f"readfile: {name[:100]!r} has more than {_MAX_BYTES >> 20} MiB"
            raise ValueError(self.refused)
        return content


def expand_series(statement: str, depth: int = 0) -> str:
    """Return a statement with recursive queries in place of ``generate_series`` calls.

    Calls that are nested too deeply, or don't have one to three arguments, are unchanged.
    """
    parts, done = [], 0
    for found in _SERIES_PATTERN.finditer(statement):
        if found["call"] is None or found.start() < done:
            continue
        *arguments, end = _split_arguments(statement, found.end())
        if not end or depth == _MOST_DEPTH:
            break  # it isn't closed, so nothing inside it is closed either
        if not 1 <= len(arguments) <= 3:
            continue
        arguments = [expand_series(argument, depth + 1) for argument in arguments]
        alias = "" if _ALIAS_PATTERN.match(statement, int(end)) else " AS generate_series"
        parts += [statement[done : found.start()], _build_series_query(arguments), alias]
        done = int(end)
    return "".join([*parts, statement[done:]])


def _split_arguments(statement: str, begin: int) -> Iterator[str]:
    """Yield a call's arguments, then the index after the call, or an empty string if it isn't closed."""
    depth, start = 0, begin
    for found in _DELIM_PATTERN.finditer(statement, begin):
        if found[0] == "(":
            depth += 1
        elif found[0] in {")", ","} and depth == 0:
            yield statement[start : found.start()]
            start = found.end()
            if found[0] == ")":
                yield str(found.end())
                return
        elif found[0] == ")":
            depth -= 1
    yield ""


def _build_series_query(arguments: list[str]) -> str:
    start, stop, step = [*arguments, _NO_END, "1"][:3] if len(arguments) == 1 else [*arguments, "1"][:3]
    return (  # the text comes from the step itself, which may run any statement
        '(WITH RECURSIVE "series bounds" (a, b, s) AS '  # noqa: S608
        f"(SELECT {start}, {stop}, CASE ({step}) WHEN 0 THEN 1 ELSE ({step}) END), "
        '"series values" (value) AS (SELECT a FROM "series bounds" WHERE iif(s > 0, a <= b, a >= b) '
        'UNION ALL SELECT value + s FROM "series values", "series bounds" '
        "WHERE iif(s > 0, value + s <= b, value + s >= b)) "
        'SELECT value FROM "series values")'
    )  # fmt: skip
