"""Restricts SQLite for submitted statements with limits, settings and an authorizer.

All actions that aren't listed are refused. The static rules refuse the same actions earlier and with more
detailed findings.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


_PASSED = (
    "SELECT", "READ", "INSERT", "UPDATE", "DELETE", "RECURSIVE", "TRANSACTION", "SAVEPOINT",
    "ALTER_TABLE", "CREATE_TABLE", "CREATE_TEMP_TABLE", "CREATE_INDEX", "CREATE_TEMP_INDEX",
    "CREATE_VIEW", "CREATE_TEMP_VIEW", "REINDEX",
)  # fmt: skip
_PASSED_IN_SCHEMAS = ("CREATE_TRIGGER",)
_REFUSED = (
    "ATTACH", "DETACH", "DROP_TABLE", "DROP_TEMP_TABLE", "DROP_INDEX", "DROP_TEMP_INDEX", "DROP_VIEW",
    "DROP_TEMP_VIEW", "DROP_TRIGGER", "DROP_TEMP_TRIGGER", "DROP_VTABLE", "CREATE_TRIGGER",
    "CREATE_TEMP_TRIGGER", "CREATE_VTABLE", "ANALYZE", "PRAGMA", "FUNCTION",
)  # fmt: skip
"""Only for the wording; an action in no list is refused too."""
_ADMITTED = {
    "sql.drop": (
        "DROP_TABLE", "DROP_TEMP_TABLE", "DROP_INDEX", "DROP_TEMP_INDEX", "DROP_VIEW", "DROP_TEMP_VIEW",
        "DROP_TRIGGER", "DROP_TEMP_TRIGGER",
    ),
    "sql.trigger": ("CREATE_TRIGGER", "CREATE_TEMP_TRIGGER"),
    "sql.statement": ("ANALYZE",),
}  # fmt: skip
"""What a profile admits that has the rule as a warning, or off."""
_MODULES = frozenset({"fts3", "fts4", "fts5", "fts5vocab", "rtree", "rtree_i32"})
# The functions with which ALTER TABLE renames and drops.
_ALTERING = frozenset({"sqlite_rename_table", "sqlite_rename_column", "sqlite_drop_column"})
_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "writefile", "edit"}) | _ALTERING
_TABLES = frozenset({"sqlite_dbpage"})
_HARMLESS = {
    # Foreign keys are enforced anyway, and programs often enable them.
    "foreign_keys": frozenset({"", "1", "on", "true", "yes"}),
    # Full-text tables read this whenever they are opened.
    "data_version": frozenset({""}),
}
"""Allowed PRAGMAs with their allowed arguments, in addition to the read-only ones."""

_LIMITS = (
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
_NONE: frozenset[str] = frozenset()


class SqlGuard:
    """An authorizer. `refused` is the last refused action. `acts` contains the changed and read tables."""

    def __init__(
        self, *, schema: bool, pragmas: frozenset[str], admits: frozenset[str] = frozenset()
    ) -> None:
        import sqlite3

        names = [*_PASSED, *(_PASSED_IN_SCHEMAS if schema else ())]
        names += [name for rule in sorted(admits) for name in _ADMITTED.get(rule, ())]
        self._modules = _MODULES if "sql.virtual_table" in admits else frozenset()
        self._functions = _FUNCTIONS - _ALTERING if "sql.alter" in admits else _FUNCTIONS
        self._virtual = (sqlite3.SQLITE_CREATE_VTABLE, sqlite3.SQLITE_DROP_VTABLE)
        self._passed = frozenset(getattr(sqlite3, f"SQLITE_{name}") for name in names)
        self._words = {getattr(sqlite3, f"SQLITE_{name}"): name.replace("_", " ") for name in _REFUSED}
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
        """Return whether SQLite may perform an action. SQLite calls this for each action of a statement."""
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
            return first in self._pragmas or second in _HARMLESS.get(first, ())
        if action == self._function:
            return second not in self._functions
        if action in self._virtual:
            return second in self._modules and (action == self._virtual[0] or self._drops)
        return action in self._passed and first not in _TABLES


def connect(path: str, *, max_bytes: int, schema: bool) -> sqlite3.Connection:
    """Open the database with all restrictions except the guard. Raises: sqlite3.Error."""
    import sqlite3

    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    connection.text_factory = _text
    for name, most in _LIMITS:
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
