"""Rules by profile: what `analysis` permits, what no profile permits, and what is the sqlite3 shell's."""

from __future__ import annotations

import pytest

from assayd.model.finding import Finding, Severity
from assayd.model.policy import RuleLevel, SqlPolicy
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd_pipeline.sql import check_sql

ANALYSIS = load_policies([get_shared_data_path("policies")]).get("analysis").sql
PIPELINE = SqlPolicy()


def found(text: str, policy: SqlPolicy = ANALYSIS) -> tuple[Finding, ...]:
    examined = check_sql(text, policy)
    return (*examined.syntax, *examined.rules)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a)",
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM t; END",
        "CREATE VIRTUAL TABLE x USING fts5(a, b, prefix='2 3')",
        "CREATE VIRTUAL TABLE x USING rtree(id, a, b)",
        "ALTER TABLE t RENAME TO z; ALTER TABLE z DROP COLUMN a",
        "ANALYZE; REINDEX",
        "PRAGMA foreign_keys = OFF; PRAGMA user_version = 3; PRAGMA journal_mode = WAL",
    ],
)
def test_analysis_says_nothing_to_what_a_throwaway_database_may_take(text: str) -> None:
    assert found(text) == ()
    assert [finding.severity for finding in found(text, PIPELINE)][:1] == [Severity.ERROR]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("DROP TABLE t", "sql.drop"),
        ("UPDATE t SET a = 1", "sql.update_without_where"),
        ("DELETE FROM t", "sql.delete_without_where"),
        ("REPLACE INTO t VALUES (1)", "sql.replace"),
        ("-- nothing", "sql.empty"),
    ],
)
def test_analysis_warns_of_what_takes_rows_away(text: str, rule: str) -> None:
    (finding,) = found(text)
    assert (finding.rule, finding.severity) == (rule, Severity.WARNING)
    assert "not allowed" not in finding.message


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("ATTACH 'x.db' AS x", "sql.attach"),
        ("VACUUM INTO 'x.db'", "sql.vacuum"),
        ("SELECT load_extension('x')", "sql.function"),
        ("ALTER TABLE t ADD COLUMN a DEFAULT (load_extension('x'))", "sql.function"),
        ("CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT load_extension('x'); END", "sql.function"),
        ("CREATE VIRTUAL TABLE x USING csv(filename='/etc/passwd')", "sql.function"),
        ("SELECT readfile('/etc/passwd')", "sql.function"),
        ("PRAGMA writable_schema = 1", "sql.pragma_outside"),
        ("PRAGMA temp_store_directory = '/x'", "sql.pragma_outside"),
    ],
)
def test_no_profile_admits_what_reaches_outside(text: str, rule: str) -> None:
    assert (rule, Severity.ERROR) in {(finding.rule, finding.severity) for finding in found(text)}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM a, b ON a.x = b.x WHERE a.y = 1",
        "SELECT json_array_length(log -> '$'), max(a, log ->> '$.b') FROM t",
        "SELECT * FROM a, json_each(a.log), (SELECT 1) AS c ON a.x = 1",
    ],
)
def test_valid_statements_that_other_dialects_read_otherwise_are_understood(text: str) -> None:
    assert found(text, PIPELINE) == ()


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (".mode csv", "Remove it"),
        (".import data/x.csv t", 'FROM "data/x.csv"'),
        (".read other.sql", "Put the statements"),
        ("SELECT median(a) FROM t", "avg()"),
        ("SELECT writefile('data/x', 1)", "a bash step"),
    ],
)
def test_what_belongs_to_the_shell_is_said_with_what_to_write_instead(text: str, remedy: str) -> None:
    (finding,) = found(text, PIPELINE)
    assert "sqlite3 shell" in f"{finding.message} {finding.suggestion}"
    assert remedy in (finding.suggestion or "")


def test_line_of_a_statement_that_begins_with_a_dot_is_no_command_of_the_shell() -> None:
    assert {finding.rule for finding in found("SELECT 1 +\n.5", PIPELINE)} == set()


def test_level_of_a_rule_is_the_profiles() -> None:
    policy = SqlPolicy(rules=(("sql.where_constant", RuleLevel.ERROR),))
    (finding,) = found("DELETE FROM t WHERE 1", policy)
    assert finding.severity is Severity.ERROR


def test_words_of_other_databases_come_with_what_sqlite_has() -> None:
    text = "CREATE TABLE IF NOT EXISTS u (\n  id INT AUTO_INCREMENT PRIMARY KEY\n) ENGINE=InnoDB"
    [finding] = found(text, PIPELINE)
    assert (finding.rule, finding.line) == ("sql.not_understood", 2)
    assert "INTEGER PRIMARY KEY" in (finding.suggestion or "")
    assert "remove ENGINE=…" in (finding.suggestion or "")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT value FROM generate_series(1, 5)",
        "SELECT readfile('data/x.csv')",
        "SELECT a FROM t WHERE a REGEXP '^[a-z]+$'",
    ],
)
def test_functions_of_the_shell_that_steps_have_pass(text: str) -> None:
    assert found(text, PIPELINE) == ()
