"""The word or sign that makes SQLite accept a statement."""

from __future__ import annotations

import pytest

from assayd_pipeline.sql.one_token import find_one_token_fix
from assayd_pipeline.sql.preparer import TableSources
from assayd_pipeline.worker import SqlitePreparer

SCHEMA = """CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, total REAL);"""


@pytest.fixture(scope="module")
def tables() -> SqlitePreparer:
    return SqlitePreparer(TableSources(schema=SCHEMA))


@pytest.mark.parametrize(
    ("statement", "new", "hint"),
    [
        (
            "SELECT id, name city FORM customers",
            "SELECT id, name city FROM customers",
            "Did you mean `FROM`?",
        ),
        ("SELECT id name city FROM customers", "SELECT id, name, city FROM customers", "`id, name, city`"),
        ("DELETE * FROM orders WHERE id = 1", "DELETE FROM orders WHERE id = 1", "Remove `*`"),
        ("SELECT name, FROM customers", "SELECT name FROM customers", "Remove the comma"),
        ("INSERT INTO orders (id) (4)", "INSERT INTO orders (id) VALUES (4)", "Put `VALUES`"),
        ("SELECT id FROM orders WHERE id IN 1, 2", "SELECT id FROM orders WHERE id IN (1, 2)", "`(1, 2)`"),
        ("SELECT name FROM customers GROUP city", "SELECT name FROM customers GROUP BY city", "`GROUP BY`"),
        (
            "SELECT id FROM orders ORDER BY id WHERE total > 1",
            "SELECT id FROM orders WHERE total > 1 ORDER BY id",
            "Put `WHERE` before `ORDER BY`",
        ),
        (
            "UPDATE orders SET total = 1 WHERE id = 1 SELECT id FROM orders",
            "UPDATE orders SET total = 1 WHERE id = 1;\nSELECT id FROM orders",
            "Put `;` before `SELECT`",
        ),
        (
            "SELECT id FROM orders WHERE total = MAX(total)",
            "SELECT id FROM orders WHERE total = (SELECT MAX(total) FROM orders)",
            "subquery",
        ),
        ("SELECT * FROM orders HAVING id > 1", "SELECT * FROM orders WHERE id > 1", "Write `WHERE`"),
        ("SELECT id FROM orders WHERE id => 1", "SELECT id FROM orders WHERE id >= 1", "Write `>=`"),
        ("SELECT name customers", "SELECT name FROM customers", "Put `FROM`"),
    ],
)
def test_change_makes_the_statement_readable(
    tables: SqlitePreparer, statement: str, new: str, hint: str
) -> None:
    change = find_one_token_fix(statement, tables)
    assert change is not None
    assert change.new == new
    assert hint in change.hint
    assert all(tables.find_error(part) is None for part in new.split(";\n"))


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT id FROM orders",  # nothing is wrong
        "SELECT id FROM orders WHERE",
        "gibberish that nothing mends at all",
        "SELECT 'open FROM orders",  # no tokens
        "SELECT id FROM nowhere",
        "SELECT " + "id, " * 500 + "FROM orders",  # too long
    ],
)
def test_statement_that_one_change_does_not_mend_has_none(tables: SqlitePreparer, statement: str) -> None:
    change = find_one_token_fix(statement, tables)
    assert change is None or "`WHERE`" in change.hint


def test_few_statements_are_prepared(tables: SqlitePreparer, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[str] = []
    complaint = tables.find_error

    def counted(statement: str) -> str | None:
        prepared.append(statement)
        return complaint(statement)

    monkeypatch.setattr(tables, "find_error", counted)
    find_one_token_fix("SELECT " + "( a " * 100, tables)
    assert len(prepared) <= 260
