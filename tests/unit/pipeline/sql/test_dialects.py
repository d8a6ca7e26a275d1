"""SQL of other databases: how it is recognized, and its SQLite equivalent."""

from __future__ import annotations

import time

import pytest

from assayd_pipeline.sql.dialects import explain_rejected, load_foreign_constructs
from assayd_pipeline.sql.meanings import explain_misinterpretations, explain_unpreparable
from assayd_pipeline.sql.preparer import TableSources
from assayd_pipeline.worker import SqlitePreparer

SCHEMA = "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, sold TEXT, price REAL);"


def tables() -> SqlitePreparer:
    return SqlitePreparer(TableSources(schema=SCHEMA))


@pytest.mark.parametrize(
    ("statement", "new"),
    [
        ("SELECT TOP 3 name FROM items", "SELECT name FROM items LIMIT 3"),
        ("SELECT price::int FROM items", "SELECT CAST(price AS INT) FROM items"),
        ("SELECT NOW() FROM items", "SELECT CURRENT_TIMESTAMP FROM items"),
        ("SELECT CONCAT(name, '-', sold) FROM items", "SELECT (name || '-' || sold) FROM items"),
        (
            "SELECT id FROM items WHERE sum(price) > 1 GROUP BY id",
            "SELECT id FROM items GROUP BY id HAVING sum(price) > 1",
        ),
        ("DELETE items WHERE id = 1", "DELETE FROM items WHERE id = 1"),
        ("SHOW TABLES", "SELECT name FROM sqlite_schema WHERE type = 'table'"),
    ],
)  # fmt: skip
def test_form_of_another_database_is_rewritten(statement: str, new: str) -> None:
    found = explain_rejected(statement, tables())
    assert found is not None
    assert found.new == new


def test_rewrite_that_the_tables_refuse_is_a_hint_alone() -> None:
    found = explain_rejected("SELECT NOW() FROM nothing", tables())
    assert found is not None
    assert (found.new, "CURRENT_TIMESTAMP" in found.hint) == (None, True)


def test_words_in_a_string_are_no_form() -> None:
    assert explain_rejected("SELECT 'call NOW()' FROM items", None) is None


def test_misspelt_column_gets_the_nearest() -> None:
    statement = "SELECT nmae FROM items"
    found = explain_unpreparable(statement, str(tables().find_error(statement)), tables())
    assert found is not None
    assert (found.hint, found.new) == ("Did you mean `name`?", "SELECT name FROM items")


@pytest.mark.parametrize(
    ("statement", "new"),
    [
        ("SELECT id FROM items WHERE name = NULL", "SELECT id FROM items WHERE name IS NULL"),
        ('SELECT id FROM items WHERE name = "pen"', "SELECT id FROM items WHERE name = 'pen'"),
        ("SELECT name + ' x' FROM items", "SELECT name || ' x' FROM items"),
        ("SELECT id name FROM items", "SELECT id, name FROM items"),
        ("UPDATE items SET name = 'a' AND price = 1", "UPDATE items SET name = 'a', price = 1"),
        (
            "CREATE TABLE IF NOT EXISTS x (a TEXT COMMENT 'shown')",
            "CREATE TABLE IF NOT EXISTS x (a TEXT)",
        ),
    ],
)
def test_what_sqlite_reads_otherwise_is_told(statement: str, new: str) -> None:
    [found] = explain_misinterpretations(statement, tables)
    assert found.new == new


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE items SET name = NULL WHERE id = 1",
        "CREATE TABLE IF NOT EXISTS x (comment TEXT DEFAULT 'none')",
        'SELECT "name" FROM items WHERE "id" = 1',
        "SELECT price + 1 AS more FROM items",
        "SELECT a.id FROM items a JOIN items b ON a.id = b.id",
        "SELECT a.id FROM items a CROSS JOIN items b",
        "UPDATE items SET price = 1 WHERE id = 1 AND name = 'a'",
    ],
)
def test_what_is_meant_so_passes(statement: str) -> None:
    assert list(explain_misinterpretations(statement, tables)) == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT " + "(" * 9_000,
        "CASE ELSE " * 900,
        "SELECT a" + ", LEFT(a, 1)" * 700,
        "x::" * 3_000,
        "'" * 9_999,
    ],
)
def test_hostile_statement_takes_little_time(statement: str) -> None:
    began = time.process_time()
    explain_rejected(statement, tables())
    list(explain_misinterpretations(statement, tables))
    assert time.process_time() - began < 5


def test_every_entry_has_a_hint_that_is_a_sentence() -> None:
    for slip in load_foreign_constructs():
        assert slip.hint.endswith((".", "`.")), slip
        assert bool(slip.call) != bool(slip.find), slip


def test_several_forms_of_a_statement_are_all_told_and_the_first_is_named() -> None:
    statement = "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, at TEXT DEFAULT NOW()) ENGINE=InnoDB"
    found = explain_rejected(statement, tables())
    assert found is not None
    assert (found.written, found.of) == ("INT AUTO_INCREMENT PRIMARY KEY", "MySQL")
    assert found.hint == (
        "Write `INTEGER PRIMARY KEY`, which counts by itself. Instead of `NOW()`: write `CURRENT_TIMESTAMP`. "
        "Instead of `ENGINE=InnoDB`: remove `ENGINE=…` and everything else after the closing parenthesis."
    )


@pytest.mark.parametrize(
    ("statement", "message", "new"),
    [
        (
            "SELECT id FROM items JOIN items AS other ON other.id = items.id",
            "Several tables have a column `id`.",
            "SELECT items.id FROM items JOIN items AS other ON other.id = items.id",
        ),
        (
            "SELECT name FROM items WHERE sold = `paid`",
            "No column is named `paid`; text needs single quotes.",
            "SELECT name FROM items WHERE sold = 'paid'",
        ),
    ],
)
def test_refused_name_is_told_in_a_sentence(statement: str, message: str, new: str) -> None:
    checked = tables()
    complaint = checked.find_error(statement)
    assert complaint is not None
    found = explain_unpreparable(statement, complaint, checked)
    assert found is not None
    assert (found.written, found.said, found.new) == (message, True, new)


def test_column_of_a_table_function_is_named() -> None:
    statement = "SELECT n FROM generate_series(1, 5) AS n"
    found = explain_unpreparable(statement, "no such column: n", tables())
    assert found is not None
    assert found.hint == "The column of `generate_series` is `value`."
