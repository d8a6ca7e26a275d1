"""SQL that can't be parsed: the edit if one small change suffices, and none in doubt."""

from __future__ import annotations

import pytest

from assayd.model.policy import SqlPolicy
from assayd_chains.providers.rules import apply_edits
from assayd_pipeline.sql import check_sql

POLICY = SqlPolicy()


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("SELECT a,\n  b,\nFROM t", "SELECT a,\n  b\nFROM t"),
        ("CREATE TABLE IF NOT EXISTS t (a INT, b INT,)", "CREATE TABLE IF NOT EXISTS t (a INT, b INT)"),
        (
            "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY AUTO_INCREMENT)",
            "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY AUTOINCREMENT)",
        ),
        ("SELECT 1;\nSELCT a FROM t", "SELECT 1;\nSELECT a FROM t"),
        ("SELECT a FROM t WHRE b = 1", "SELECT a FROM t WHERE b = 1"),
        ("select a from t gruop by a", "select a from t group by a"),
        ("```sql\nSELECT 1;\n```\n", "SELECT 1;\n"),
        ("SELECT count(*\nFROM t", "SELECT count(*)\nFROM t"),
        ("SELECT a FROM t WHERE b IN (1, 2\nORDER BY a", "SELECT a FROM t WHERE b IN (1, 2)\nORDER BY a"),
        ("SELECT a FROM t WHERE b = 'x\nORDER BY a", "SELECT a FROM t WHERE b = 'x'\nORDER BY a"),
        (
            "SELECT a FROM t WHERE b IN (\n  1, 2\n\nORDER BY a",
            "SELECT a FROM t WHERE b IN (\n  1, 2\n)\nORDER BY a",
        ),
        ("INSERT INTO t VALUES (1, 'O'Neil')", "INSERT INTO t VALUES (1, 'O''Neil')"),
        ("ALTER TALBE t ADD COLUMN x", "ALTER TABLE t ADD COLUMN x"),
    ],
)
def test_edit_makes_sql_of_the_text(text: str, mended: str) -> None:
    [finding] = check_sql(text, POLICY).syntax
    assert finding.rule == "sql.syntax"
    assert finding.edit is not None
    assert apply_edits(text, [finding.edit]).rstrip("\n") == mended.rstrip("\n")
    assert check_sql(mended, POLICY).syntax == ()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t WHERE",
        "SELCT a FROM t; SELCT b FROM t",  # one finding at a time has an edit
        "SELECT 'never ends",
        "XELECT a FROM t WHERE",
        "SELECT (a FROM t",
        "SELECT * FROM (SELECT a\nFROM t\nWHERE b = 1\nORDER BY c",  # it may end on three lines
        "```sql\nSELCT 1\n```",
    ],
)
def test_no_edit_where_a_doubt_is_left(text: str) -> None:
    found = check_sql(text, POLICY).syntax
    assert found
    assert all(finding.edit is None for finding in found)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("SELECT 1;\nSELECT 'a\nFROM t;\nSELECT 'b' FROM t WHERE x = 'c'", 2, "Close"),
        ("SELECT 1;\nSELECT (\n  a FROM t", 2, "line 2, column 8"),
        ("SELECT a FROM t\nWHRE b = 1", 2, "Did you mean WHERE?"),
    ],
)
def test_a_finding_stands_where_something_is_missing(text: str, line: int, said: str) -> None:
    [finding] = check_sql(text, POLICY).syntax
    assert finding.line == line
    assert said in (finding.suggestion or "")
