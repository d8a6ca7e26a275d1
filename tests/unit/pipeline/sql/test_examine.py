"""SQL steps: forbidden lines for every rule, and similar legitimate ones."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from assayd.model.finding import Finding, Severity
from assayd.model.policy import SqlPolicy
from assayd_pipeline.sql import RULES, SqlFindings, check_sql

POLICY = SqlPolicy()

BAD = [
    # text, rule, line, column
    ("SELCT * FROM t", "sql.syntax", 1, 1),
    ("SELECT 1;\n  SELECT a FROM t WHERE", "sql.syntax", 2, 19),
    ("SELECT 'never ends", "sql.syntax", 1, 8),
    ("SELECT 12abc", "sql.syntax", 1, 8),
    ("SELECT {# DELETE #} 1", "sql.syntax", 1, 8),
    ("(SELECT 1)", "sql.syntax", 1, 1),
    ("MERGE INTO t USING u ON 1 WHEN MATCHED THEN DELETE", "sql.syntax", 1, 1),
    ("-- nothing yet", "sql.empty", 1, 1),
    (" ; ; ", "sql.empty", 1, 1),
    ("SELECT a FROM t FOR UPDATE", "sql.not_understood", 1, 1),
    ("SELECT a FROM t WHERE a ILIKE 'x'", "sql.syntax", 1, 25),
    ("SELECT * INTO x FROM t", "sql.not_understood", 1, 1),
    ("CREATE", "sql.not_understood", 1, 1),
    ("CREATE TABLE IF NOT EXISTS t AS SELECT a FROM b LEFT JION c ON 1", "sql.syntax", 1, 49),
    ("SELECT " + "(" * 100 + "1" + ")" * 100, "sql.not_understood", 1, 72),
    ("SELECT " + "- " * 5000 + "1", "sql.not_understood", 1, 1),
    ("ANALYZE", "sql.statement", 1, 1),
    ("EXPLAIN", "sql.statement", 1, 1),
    ("EXPLAIN EXPLAIN SELECT 1", "sql.statement", 1, 9),
    ("EXPLAIN QUERY PLAN DROP TABLE t", "sql.drop", 1, 20),
    ("EXPLAIN DELETE FROM t", "sql.delete_without_where", 1, 9),
    ("CREATE DATABASE x", "sql.statement", 1, 1),
    ("DROP TABLE sales", "sql.drop", 1, 1),
    ("SELECT '; DROP TABLE x' -- ; DROP\n; drop VIEW v", "sql.drop", 2, 3),
    ("TRUNCATE TABLE t", "sql.truncate", 1, 1),
    ("ATTACH 'x.db' AS x", "sql.attach", 1, 1),
    ("DETACH x", "sql.attach", 1, 1),
    ("VACUUM INTO 'x.db'", "sql.vacuum", 1, 1),
    ("REPLACE INTO t VALUES (1)", "sql.replace", 1, 1),
    ("INSERT OR REPLACE INTO t VALUES (1)", "sql.replace", 1, 1),
    ("UPDATE OR REPLACE t SET a = 1 WHERE a = 2", "sql.replace", 1, 1),
    ("CREATE TABLE IF NOT EXISTS t (a UNIQUE ON CONFLICT REPLACE)", "sql.replace", 1, 52),
    ("CREATE TABLE IF NOT EXISTS t (a, UNIQUE (a) ON CONFLICT REPLACE)", "sql.replace", 1, 57),
    ("PRAGMA writable_schema = 1", "sql.pragma", 1, 1),
    (".mode csv", "sql.dot_command", 1, 1),
    ("SELECT 1;\n.import data/x.csv t\nSELECT 2", "sql.dot_command", 2, 1),
    ("SELECT median(a) FROM t", "sql.shell", 1, 8),
    ("PRAGMA foreign_keys = OFF", "sql.pragma", 1, 1),
    ("PRAGMA foreign_keys(0)", "sql.pragma", 1, 1),
    ('PRAGMA main."journal_mode"(off)', "sql.pragma", 1, 1),
    ("PRAGMA user_version", "sql.pragma", 1, 1),
    ("PRAGMA", "sql.pragma", 1, 1),
    ("CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM t; END", "sql.trigger", 1, 1),
    ("CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; DELETE FROM t; END;", "sql.trigger", 1, 1),
    ("CREATE VIRTUAL TABLE IF NOT EXISTS x USING fts5(a)", "sql.virtual_table", 1, 1),
    ("ALTER TABLE t RENAME TO z", "sql.alter", 1, 1),
    ("ALTER TABLE main.t DROP COLUMN a", "sql.alter", 1, 1),
    ("CREATE TABLE t (a)", "sql.if_not_exists", 1, 1),
    ("CREATE TEMP VIEW v AS SELECT 1", "sql.if_not_exists", 1, 1),
    ("UPDATE t SET a = 1", "sql.update_without_where", 1, 1),
    ("UPDATE t SET a = (SELECT b FROM u WHERE u.id = 1)", "sql.update_without_where", 1, 1),
    ("UPDATE t SET a = b\u00a0WHERE -1", "sql.update_without_where", 1, 1),
    ("UPDATE t SET a = 'x' -- WHERE a = 2", "sql.update_without_where", 1, 1),
    ("DELETE FROM t", "sql.delete_without_where", 1, 1),
    ("DELETE FROM t AS \"WHERE a\" ; SELECT 'WHERE'", "sql.delete_without_where", 1, 1),
    ("WITH x AS (SELECT 1 WHERE 1) DELETE FROM t", "sql.delete_without_where", 1, 1),
    ("WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", "sql.delete_without_where", 1, 1),
    ("/* /* */ DELETE FROM t; -- */ WHERE 1", "sql.delete_without_where", 1, 10),
    ("DELETE FROM t WHERE 1 = 1", "sql.where_constant", 1, 1),
    ("DELETE FROM t WHERE a = 2 OR TRUE", "sql.where_constant", 1, 1),
    ("UPDATE t SET a = 1 WHERE id = id", "sql.where_constant", 1, 1),
    ("SELECT load_extension('x')", "sql.function", 1, 1),
    ("SELECT \"load_extension\"('x')", "sql.function", 1, 1),
    ("ALTER TABLE t ADD COLUMN a DEFAULT (load_extension('x'))", "sql.function", 1, 37),
    ("SELECT a FROM t WHERE a = readfile('/etc/passwd')", "sql.function", 1, 1),
    ("SELECT * FROM t WHERE id = ?", "sql.parameter", 1, 28),
    ("PRAGMA table_info(:name)", "sql.parameter", 1, 19),
]

GOOD = (Path(__file__).parent / "good.sql").read_text().splitlines()


def found(text: str, policy: SqlPolicy = POLICY) -> tuple[Finding, ...]:
    examined = check_sql(text, policy)
    return examined.syntax or examined.rules


@pytest.mark.parametrize(("text", "rule", "line", "column"), BAD, ids=[case[0][:40] for case in BAD])
def test_bad_line_gets_its_rule_and_place(text: str, rule: str, line: int, column: int) -> None:
    first, *others = found(text)

    assert (first.rule, first.line, first.column, others) == (rule, line, column, [])
    assert first.suggestion


@pytest.mark.parametrize("text", GOOD, ids=lambda text: text[:40])
def test_legitimate_neighbour_passes(text: str) -> None:
    assert found(text) == ()


def test_every_rule_has_a_bad_line() -> None:
    elsewhere = {"sql.too_large", "sql.pragma_outside"}
    assert {rule for _, rule, _, _ in BAD} | elsewhere == {rule.id for rule in RULES}


def test_condition_that_never_tells_rows_apart_is_only_a_warning() -> None:
    (finding,) = found("DELETE FROM t WHERE 1")

    assert finding.severity is Severity.WARNING


def test_missing_words_of_create_come_with_the_edit_that_adds_them() -> None:
    (finding,) = found("SELECT 1;\nCREATE UNIQUE INDEX i\n  ON t (a);")

    assert finding.edit is not None
    assert (finding.edit.start_line, finding.edit.end_line) == (2, 2)
    assert finding.edit.replacement == "CREATE UNIQUE INDEX IF NOT EXISTS i"


def test_misspelt_statement_is_told_what_was_meant() -> None:
    (finding,) = found("UPDTE t SET a = 1 WHERE b")

    assert finding.message == 'Statement 1: near "UPDTE": syntax error.'
    assert finding.suggestion == "Did you mean UPDATE?"


@pytest.mark.parametrize(
    ("policy", "words"),
    [(SqlPolicy(max_bytes=20), "36 bytes"), (SqlPolicy(max_statements=2), "4 statements")],
)
def test_more_sql_than_the_policy_allows_is_not_read_further(policy: SqlPolicy, words: str) -> None:
    (finding,) = found("SELECT 1;" * 4, policy)

    assert finding.rule == "sql.too_large"
    assert words in finding.message


def test_findings_of_a_step_are_capped() -> None:
    assert len(found("DROP TABLE t;" * 900)) == 500


def test_any_mixture_of_tokens_is_examined_without_trouble() -> None:
    words = [word for text in (*GOOD, *(case[0] for case in BAD)) for word in text.split()][:2000]
    chance = random.Random(7)
    for _ in range(300):
        text = " ".join(chance.choices(words, k=chance.randint(1, 30)))
        assert isinstance(check_sql(text, POLICY), SqlFindings)


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, x'00')",
        "INSERT INTO t (a) VALUES (1), (2), (3) ON CONFLICT (a) DO NOTHING",
        "VALUES (1), (2) UNION ALL VALUES (3), (4)",
        "WITH v (a) AS (VALUES (1), (2)) SELECT a FROM v",
        "INSERT INTO t VALUES (1), (abs(-2)), (3)",
    ],
)
def test_rows_of_values_are_read(text: str) -> None:
    assert check_sql(text, POLICY) == SqlFindings()


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("INSERT INTO t VALUES (1), (2), (load_extension('x')), (3)", ["sql.function"]),
        ("INSERT INTO t VALUES (1), (2), (3,)", ["sql.syntax"]),
        ("INSERT OR REPLACE INTO t VALUES (1), (2), (3)", ["sql.replace"]),
        ("INSERT INTO t VALUES (1), (2); DELETE FROM t", ["sql.delete_without_where"]),
        ("WITH d AS (VALUES (1), (2)) DELETE FROM t", ["sql.delete_without_where"]),
    ],
)
def test_what_stands_among_rows_of_values_is_seen(text: str, rules: list[str]) -> None:
    examined = check_sql(text, POLICY)
    assert [finding.rule for finding in (*examined.syntax, *examined.rules)] == rules


@pytest.mark.slow
def test_many_rows_of_values_are_read_in_little_time() -> None:
    """Regression: a table of 250 KB exceeded the time limit, mostly for identical rows."""
    text = "INSERT INTO t VALUES (1)" + ",(1)" * 60_000
    began = time.process_time()
    assert check_sql(text, POLICY) == SqlFindings()
    few = "INSERT INTO t VALUES " + ",".join(f"(a{number})" for number in range(600))
    many_s, began = time.process_time() - began, time.process_time()
    check_sql(few, POLICY)
    assert many_s < 100 * (time.process_time() - began), "a hundred times as many rows"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("SELECT " + ",".join(["median(a)"] * 600) + " FROM t; SELECT 1;", "sql.shell"),
        ("SELECT median(a);\n" * 900, "sql.shell"),
        (".a\n" * 900, "sql.dot_command"),
    ],
)
def test_what_belongs_to_the_shell_is_told_as_often_as_anything(text: str, rule: str) -> None:
    """Regression: one more call than the maximum of findings was an internal error."""
    told = found(text)
    assert (len(told), {finding.rule for finding in told}) == (500, {rule})


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        ".a\n" * 80_000,
        "SELECT " + "median(\n" * 30_000,
        "SELECT " + "a,\n" * 80_000 + " FROM t",
        "SELECT (\n" + "a\n" * 15_000,
        "SELECT FORM " + "FORM " * 10_000,
    ],
    ids=["commands", "functions", "columns", "an open bracket", "slips"],
)
def test_text_at_the_cap_is_examined_in_time_that_grows_with_its_length(text: str) -> None:
    assert len(text) <= POLICY.max_bytes
    began = time.process_time()
    assert found(text)
    assert time.process_time() - began < 20, "it took minutes"


def test_more_words_than_get_a_tree_are_refused_before_they_are_read() -> None:
    (finding,) = found("SELECT a" + ",a" * 60_000)
    assert (finding.rule, finding.message) == (
        "sql.too_large",
        "The step has 120002 SQL tokens; 100000 are allowed.",
    )
