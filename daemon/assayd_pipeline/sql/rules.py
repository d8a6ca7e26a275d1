"""The rules for SQL, statements that are rejected because of their first word, and suggested names.

Defines the rules for SQL, and the statements that are rejected because of their first word.

Source: docs/kinds/pipeline.md.

Suggests the intended name for a name that SQLite doesn't know.

no such column: amuont              Did you mean amount?
no such function: median            belongs to the sqlite3 shell
no such table: generate_series      belongs to the sqlite3 shell
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from assayd.did_you_mean import find_close_names
from assayd.model.finding import Finding, Rule, Severity, add_profile_keys
from assayd.model.policy import SQL_RULES, RuleLevel, SqlPolicy
from assayd.model.text_limits import shorten_text

READ_PRAGMAS = frozenset(
    {
        "collation_list", "compile_options", "database_list", "foreign_key_check", "foreign_key_list",
        "function_list", "index_info", "index_list", "index_xinfo", "integrity_check", "module_list",
        "pragma_list", "quick_check", "table_info", "table_list", "table_xinfo",
    }
)  # fmt: skip
"""PRAGMAs that only read, with any argument."""

SESSION_PRAGMAS = frozenset(
    {
        "application_id", "automatic_index", "busy_timeout", "cache_size", "case_sensitive_like",
        "defer_foreign_keys", "encoding", "foreign_keys", "ignore_check_constraints", "journal_mode",
        "legacy_alter_table", "optimize", "recursive_triggers", "reverse_unordered_selects", "synchronous",
        "temp_store", "user_version",
    }
)  # fmt: skip
"""PRAGMAs that only affect the session; a profile can allow them."""

SEARCH_MODULES = frozenset({"fts3", "fts4", "fts5", "fts5vocab", "rtree", "rtree_i32"})
"""Modules of virtual tables that store their data in the database."""

WARNING_MESSAGES: Mapping[str, str] = {
    "sql.drop": "DROP deletes existing objects.",
    "sql.alter": "ALTER TABLE changes existing columns.",
    "sql.trigger": "A trigger affects later statements.",
    "sql.virtual_table": "A virtual table is backed by a program, not by plain rows.",
    "sql.pragma": "This PRAGMA changes database settings.",
    "sql.statement": "This statement changes no rows.",
    "sql.if_not_exists": "CREATE fails if the name exists.",
}
"""The text of warnings, in place of the error's "isn't allowed"."""

FOREIGN_KEYWORDS: Mapping[str, str] = {
    "AUTO_INCREMENT": "for AUTO_INCREMENT write id INTEGER PRIMARY KEY, which numbers rows automatically",
    "NOW": "for NOW() write CURRENT_TIMESTAMP",
    "ENGINE": "remove ENGINE=… and the other options after the parenthesis",
    "CHARSET": "remove the character set; text is UTF-8",
    "SERIAL": "write INTEGER PRIMARY KEY, which numbers rows automatically",
    "TRUNCATE": "write DELETE FROM … WHERE …",
    "INTERVAL": "write datetime(x, '+1 day')",
    "ILIKE": "write LIKE, which ignores case",
    "UNSIGNED": "remove UNSIGNED",
}
"""Keywords of other databases, with their equivalents in SQLite."""

SHELL_FUNCTIONS: Mapping[str, str] = {
    "generate_series": "WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n "
    "WHERE value < 10) SELECT value FROM n",
    "median": "avg() of the middle rows: ORDER BY x LIMIT 2 - (n % 2) OFFSET (n - 1) / 2",
    "percentile": "row_number() OVER (ORDER BY x) and count(*)",
    "stddev": "sqrt(avg(x * x) - avg(x) * avg(x))",
    "readfile": 'rows of a file, FROM "data/x.csv"; or data/x.txt read by a bash step into a CSV file',
    "writefile": "a SELECT, and a bash step that reads logs/NN_name.out",
    "edit": "an UPDATE",
    "fsdir": "a bash step that writes names into a CSV file",
    "decimal": "integers, such as cents",
    "decimal_sum": "sum() of integers, such as cents",
    "sha3": "a bash step with sha256sum",
}
"""Functions of the sqlite3 shell, with their equivalents in SQLite."""

SHELL_COMMANDS: Mapping[str, str] = {
    "import": 'Read the file as a table: INSERT INTO t SELECT * FROM "data/x.csv".',
    "read": "Put the statements of that file into the step.",
    "output": "Remove it: later steps read the selected rows in logs/NN_name.out.",
    "once": "Remove it: later steps read the selected rows in logs/NN_name.out.",
    "print": "Write SELECT 'text'.",
    "tables": "Write SELECT name FROM sqlite_schema WHERE type = 'table'.",
    "schema": "Write SELECT sql FROM sqlite_schema.",
    "dump": "Remove it: the database is already an artifact of the attempt.",
    "open": "Remove it: the step already uses the pipeline's database.",
}
"""Commands of the sqlite3 shell with their replacements; other commands have no replacement."""

EXTERNAL_FUNCTIONS = frozenset({"edit", "fts3_tokenizer", "load_extension", "writefile"})
"""Functions that load code or access files; most exist only in the sqlite3 shell."""

PROVIDED = frozenset({"generate_series", "readfile"})
"""Functions of the sqlite3 shell that steps can also use; readfile reads only below data/."""

MADE = ("TABLE", "VIEW", "INDEX")
"""Objects that a step can create."""

TRANSACTION_VERBS = frozenset({"BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"})
"""Transaction statements, which are allowed. A failed step leaves no changes, with or without them."""

USELESS_VERBS = frozenset({"ANALYZE", "EXPLAIN", "REINDEX"})
"""SQLite statements that change no data and are useless in a pipeline."""

REFUSED: Mapping[str, tuple[str, str, str]] = {
    "DROP": ("sql.drop", "DROP isn't allowed", "Keep the object; create a new table under another name."),
    "TRUNCATE": ("sql.truncate", "TRUNCATE isn't allowed", "Delete the rows that must go: DELETE … WHERE …"),
    "ATTACH": ("sql.attach", "ATTACH isn't allowed", "Use the pipeline's only database."),
    "DETACH": ("sql.attach", "DETACH isn't allowed", "Use the pipeline's only database."),
    "VACUUM": ("sql.vacuum", "VACUUM isn't allowed", "Remove the statement."),
    "REPLACE": (
        "sql.replace",
        "REPLACE deletes conflicting rows",
        "Write INSERT … ON CONFLICT (key) DO UPDATE SET …",
    ),
}
"""Rejected statements by first word: rule, message and suggestion."""

_RULE_ENTRIES = (
    ("sql.syntax", "The text isn't valid SQL", "Bad: SELCT * FROM t. Good: SELECT * FROM t."),
    ("sql.empty", "A step without a statement", "Bad: -- nothing yet. Good: SELECT 1;"),
    ("sql.too_large", "More SQL than a step may have", "Split the step, or read rows from a CSV file."),
    (
        "sql.not_understood",
        "The rules can't read the statement",
        "Write the statement in plain SQLite syntax.",
    ),
    ("sql.statement", "The statement isn't allowed in a step", "Bad: ANALYZE. Good: SELECT."),
    ("sql.drop", "DROP", "Bad: DROP TABLE t. Good: nothing is dropped."),
    ("sql.truncate", "TRUNCATE", "Bad: TRUNCATE t. Good: DELETE FROM t WHERE at < '2024'."),
    ("sql.attach", "ATTACH or DETACH", "Bad: ATTACH 'x.db' AS x. Good: one database."),
    ("sql.vacuum", "VACUUM", "Bad: VACUUM INTO 'x.db'."),
    ("sql.replace", "REPLACE, or OR REPLACE", "Bad: REPLACE INTO t …. Good: INSERT … ON CONFLICT …."),
    ("sql.pragma", "The PRAGMA isn't read-only", "Bad: PRAGMA writable_schema = 1."),
    ("sql.pragma_outside", "The PRAGMA has effects beyond the step", "Bad: PRAGMA writable_schema = 1."),
    ("sql.trigger", "CREATE TRIGGER", "Bad: CREATE TRIGGER …. Good: do it in a step."),
    ("sql.virtual_table", "CREATE VIRTUAL TABLE", "Bad: … USING fts5(a). Good: a plain table."),
    ("sql.alter", "ALTER TABLE beyond ADD COLUMN", "Bad: … RENAME TO x. Good: … ADD COLUMN x."),
    ("sql.if_not_exists", "CREATE without IF NOT EXISTS", "Bad: CREATE TABLE t (a)."),
    ("sql.update_without_where", "UPDATE without WHERE", "Bad: UPDATE t SET a = 1."),
    ("sql.delete_without_where", "DELETE without WHERE", "Bad: DELETE FROM t."),
    ("sql.function", "The function accesses data outside the database", "Bad: SELECT load_extension('x')."),
    ("sql.dot_command", "A dot-command of the sqlite3 shell", "Bad: .mode csv. Good: SELECT * FROM t."),
    ("sql.shell", "A function exists only in the sqlite3 shell", "Bad: median(x). Good: avg(x)."),
    ("sql.parameter", "A parameter has no value", "Bad: WHERE id = ?. Good: WHERE id = 1."),
)
RULES = (
    *add_profile_keys(
        (Rule(id=name, title=title, help=text) for name, title, text in _RULE_ENTRIES),
        dict.fromkeys(SQL_RULES, "sql.rules"),
    ),
    Rule(
        id="sql.where_constant",
        title="A condition is the same for every row",
        severity=Severity.WARNING,
        help="Bad: DELETE FROM t WHERE 1 = 1. Good: DELETE FROM t WHERE id = 1.",
    ),
)
_MISSING_REGEX = re.compile(
    r"no such (column|table|function): (?:[^\s.]+\.)*([^\s.]+)|has no column named (\S+)"
)
_MAX_HINT_NAMES = 20


def apply_levels(findings: Iterable[Finding], policy: SqlPolicy) -> tuple[Finding, ...]:
    """Return the findings with the profile's severities, without those of disabled rules."""
    found = (_apply_level(finding, policy) for finding in findings)
    return tuple(finding for finding in found if finding is not None)


def _apply_level(finding: Finding, policy: SqlPolicy) -> Finding | None:
    level = policy.level(finding.rule) if finding.rule in SQL_RULES else None
    match level:
        case RuleLevel.OFF:
            return None
        case RuleLevel.WARNING:
            message = WARNING_MESSAGES.get(finding.rule, finding.message)
            return replace(finding, severity=Severity.WARNING, message=message)
        case RuleLevel.ERROR:
            return replace(finding, severity=Severity.ERROR)
        case None:
            return finding


def suggest_similar_names(message: str, names: Mapping[str, Sequence[str]]) -> str | None:
    """Return advice about an unknown name, or None if the message isn't about one or no names are known.

    Args:
        message: SQLite's error message.
        names: the columns of each existing table.
    """
    found = _MISSING_REGEX.search(message)
    if found is None:
        return None
    kind, name = found[1] or "column", (found[2] or found[3]).strip('"`[]')
    if name.lower() in SHELL_FUNCTIONS:
        return f"{name} exists only in the sqlite3 shell. Write instead: {SHELL_FUNCTIONS[name.lower()]}."
    if kind == "function" or not names:
        return None
    known = (
        list(names) if kind == "table" else list(dict.fromkeys(c for each in names.values() for c in each))
    )
    folded = {each.lower(): each for each in known}
    near = find_close_names(name.lower(), folded)
    meant = f"Did you mean {folded[near[0]]}? " if near else ""
    if kind == "table":
        return shorten_text(f"{meant}The tables are: {', '.join(known[:_MAX_HINT_NAMES])}.")
    tables = "; ".join(f"{table} ({', '.join(columns)})" for table, columns in names.items())
    return shorten_text(f"{meant}The columns are: {tables}.")
