"""The rules for SQL, and which statements are refused by their first word.

Source: seed 001, 4.6; SECURITY, "Decisions".
"""

from __future__ import annotations

from collections.abc import Mapping

from assayd.model.finding import Rule, Severity

READ_PRAGMAS = frozenset(
    {
        "foreign_key_check", "foreign_key_list", "index_info", "index_list", "index_xinfo", "integrity_check",
        "quick_check", "table_info", "table_list", "table_xinfo",
    }
)  # fmt: skip
"""The PRAGMAs that only look, whatever their argument is."""

REACHING_OUT = frozenset({"edit", "fts3_tokenizer", "load_extension", "readfile", "writefile"})
"""Functions that load code or touch files; most are in SQLite's own shell only."""

MADE = ("TABLE", "VIEW", "INDEX")
"""What a step may create."""

CONTROL = frozenset({"BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"})
"""Transactions: allowed as they are. A step that fails leaves nothing behind, with or without them."""

UNSUITABLE = frozenset({"ANALYZE", "EXPLAIN", "REINDEX"})
"""Statements of SQLite that change no data and have no place in a pipeline."""

REFUSED: Mapping[str, tuple[str, str, str]] = {
    "DROP": ("sql.drop", "DROP is not allowed", "Keep what is there; make a new table under another name."),
    "TRUNCATE": ("sql.truncate", "TRUNCATE is not allowed", "Delete the rows that must go: DELETE … WHERE …"),
    "ATTACH": ("sql.attach", "ATTACH is not allowed", "Use the one database that the pipeline has."),
    "DETACH": ("sql.attach", "DETACH is not allowed", "Use the one database that the pipeline has."),
    "VACUUM": ("sql.vacuum", "VACUUM is not allowed", "Leave the file as it is."),
    "REPLACE": (
        "sql.replace",
        "REPLACE deletes the rows that are in its way",
        "Write INSERT … ON CONFLICT (key) DO UPDATE SET …",
    ),
}
"""By first word: rule, message, suggestion."""

_RULES = (
    ("sql.syntax", "Text that is not SQL", "Bad: SELCT * FROM t. Good: SELECT * FROM t."),
    ("sql.empty", "A step without a statement", "Bad: -- nothing yet. Good: SELECT 1;"),
    ("sql.too_large", "More SQL than a step may have", "Split the step, or read rows from a CSV file."),
    ("sql.not_understood", "A statement that the rules cannot read", "Write it in SQLite's plain form."),
    ("sql.statement", "A kind of statement that steps may not have", "Bad: ANALYZE. Good: SELECT."),
    ("sql.drop", "DROP", "Bad: DROP TABLE t. Good: nothing is dropped."),
    ("sql.truncate", "TRUNCATE", "Bad: TRUNCATE t. Good: DELETE FROM t WHERE at < '2024'."),
    ("sql.attach", "ATTACH or DETACH", "Bad: ATTACH 'x.db' AS x. Good: one database."),
    ("sql.vacuum", "VACUUM", "Bad: VACUUM INTO 'x.db'."),
    ("sql.replace", "REPLACE, or OR REPLACE", "Bad: REPLACE INTO t …. Good: INSERT … ON CONFLICT …."),
    ("sql.pragma", "A PRAGMA that does more than look", "Bad: PRAGMA writable_schema = 1."),
    ("sql.trigger", "CREATE TRIGGER", "Bad: CREATE TRIGGER …. Good: do it in a step."),
    ("sql.virtual_table", "CREATE VIRTUAL TABLE", "Bad: … USING fts5(a). Good: a plain table."),
    ("sql.alter", "ALTER TABLE beyond ADD COLUMN", "Bad: … RENAME TO x. Good: … ADD COLUMN x."),
    ("sql.if_not_exists", "CREATE without IF NOT EXISTS", "Bad: CREATE TABLE t (a)."),
    ("sql.update_without_where", "UPDATE without WHERE", "Bad: UPDATE t SET a = 1."),
    ("sql.delete_without_where", "DELETE without WHERE", "Bad: DELETE FROM t."),
    ("sql.function", "A function that reaches outside", "Bad: SELECT load_extension('x')."),
    ("sql.parameter", "A place for a value that nothing fills", "Bad: WHERE id = ?. Good: WHERE id = 1."),
)
RULES = (
    *(Rule(id=name, title=title, help=text) for name, title, text in _RULES),
    Rule(
        id="sql.where_constant",
        title="A condition that is the same for every row",
        severity=Severity.WARNING,
        help="Bad: DELETE FROM t WHERE 1 = 1. Good: name the rows.",
    ),
)
