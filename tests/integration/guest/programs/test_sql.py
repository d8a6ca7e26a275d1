"""`sql`: statements on a database that is a file only while they run."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from support.guests.guest_runner import GuestRunner, Seen

FAILED = 1 << 8
SCHEMA = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE, at TEXT)"


def sql(
    runner: GuestRunner,
    text: str,
    *,
    mode: str = "step",
    max_rows: int = 5,
    pragma: str = "table_info",
    **unit: object,
) -> Seen:
    """Run a unit in the directory that the previous unit left."""
    arguments = {"sql": text, "mode": mode, "admits": [], "pragmas": [pragma], "max_rows": max_rows}
    arguments |= {"max_cell_chars": 20, "max_bytes": 10**6}
    return runner.run("sql", arguments, fresh_cwd=False, **unit)


def bash(runner: GuestRunner, script: str) -> Seen:
    """Run a script of the host's bash."""
    return runner.run("exec", {"argv": ["/bin/bash", "-c", script], "env": {}}, fresh_cwd=False)


def database(path: Path, *statements: str) -> bytes:
    """Return the bytes of a database."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path.read_bytes()


def rows(content: bytes, query: str) -> list[tuple[object, ...]]:
    """Query a returned database."""
    connection = sqlite3.connect(":memory:")
    connection.deserialize(content)
    return connection.execute(query).fetchall()


def result(runner: GuestRunner) -> bytes | None:
    """Finish, and return the returned database."""
    frames = runner.finish()
    parts = [body for header, body in frames if header.get("path") == "database.sqlite"]
    return b"".join(parts) if parts else None


@pytest.fixture
def begun(runner: GuestRunner, work: Path) -> GuestRunner:
    """Return a runner that allows programs, with limits that are large enough for a database."""
    runner.begin(allow_exec=True, outputs_bytes=10**6, output_read_bytes=10**6)
    return runner


def test_statements_run_and_the_database_comes_back(begun: GuestRunner) -> None:
    begun.send("database", b"")
    seen = sql(begun, f"{SCHEMA};\nINSERT INTO t (name) VALUES ('a'), ('b');\nSELECT * FROM t -- all\n")

    tables = [["t", 2, ["id", "INTEGER", "name", "TEXT", "at", "TEXT"]]]
    assert seen.record == {"status": "returned", "statements": 3, "rows": 2, "changes": 2, "tables": tables}
    assert seen.output("stdout") == b"id\tname\tat\n1\ta\tNULL\n2\tb\tNULL\n"
    content = result(begun)
    assert content is not None
    assert rows(content, "SELECT name FROM t") == [("a",), ("b",)]


def test_database_that_was_given_is_worked_on_and_goes_from_unit_to_unit(
    begun: GuestRunner, tmp_path: Path
) -> None:
    given = database(tmp_path / "given", SCHEMA, "INSERT INTO t (name) VALUES ('old')")
    begun.send("database", given[:1000])
    begun.send("database", given[1000:])

    sql(begun, "UPDATE t SET at = 'now' WHERE name = 'old'")
    seen = sql(begun, "SELECT name, at FROM t")

    assert seen.output("stdout") == b"name\tat\nold\tnow\n"


def test_database_that_nobody_changed_stays_behind(begun: GuestRunner, tmp_path: Path) -> None:
    begun.send("database", database(tmp_path / "given", SCHEMA))
    sql(begun, "SELECT count(*) FROM t")

    assert result(begun) is None


def test_database_in_write_ahead_mode_is_worked_on(begun: GuestRunner, tmp_path: Path) -> None:
    begun.send("database", database(tmp_path / "given", "PRAGMA journal_mode = WAL", SCHEMA))
    seen = sql(begun, "INSERT INTO t (name) VALUES ('a')")

    assert seen.record["changes"] == 1
    content = result(begun)
    assert content is not None
    assert content[18:20] == b"\x02\x02"  # still in that mode, as the header says
    plain = content.replace(b"\x02\x02", b"\x01\x01", 1)
    assert rows(plain, "SELECT name FROM t") == [("a",)]


@pytest.mark.parametrize(
    ("text", "statement", "line", "column", "message", "code"),
    [
        ("SELECT 1;\n  SELCT 2;", 2, 2, 3, 'near "SELCT": syntax error', "SQLITE_ERROR"),
        ("SELECT\n  missing FROM t", 1, 2, 3, "no such column: missing", "SQLITE_ERROR"),
        ("/* a; b */ SELECT * FROM gone", 1, 1, 26, "no such table: gone", "SQLITE_ERROR"),
        ("INSERT INTO t VALUES (1, 2,)", 1, 1, 28, 'near ")": syntax error', "SQLITE_ERROR"),
        (
            "INSERT INTO t (name) VALUES ('x');\nINSERT INTO t (name) VALUES ('x')",
            2, 2, 1, "UNIQUE constraint failed: t.name", "SQLITE_CONSTRAINT_UNIQUE",
        ),
        ("BEGIN; SELECT 1", 2, 1, 8, "the step ends inside a transaction: COMMIT is missing", None),
        ("ROLLBACK", 1, 1, 1, "cannot rollback - no transaction is active", "SQLITE_ERROR"),
    ],
)  # fmt: skip
def test_failing_statement_is_told_with_its_place(
    begun: GuestRunner, text: str, statement: int, line: int, column: int, message: str, code: str | None
) -> None:
    sql(begun, SCHEMA)
    seen = sql(begun, text)

    told = {key: seen.record[key] for key in ("status", "statement", "line", "column", "message", "code")}
    assert told == {
        "status": "failed", "statement": statement, "line": line, "column": column,
        "message": message, "code": code,
    }  # fmt: skip
    assert seen.end["wait_status"] == FAILED
    assert seen.output("stderr") == f"line {line}, column {column}: {message}\n".encode()


@pytest.mark.parametrize(
    ("statement", "refused"),
    [
        ("ATTACH 'x.db' AS x", "ATTACH x.db"),
        ("VACUUM", "ATTACH"),
        ("VACUUM INTO 'x.db'", "ATTACH x.db"),
        ("DETACH main", "DETACH main"),
        ("DROP TABLE t", "DROP TABLE t"),
        ("CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM t; END", "CREATE TRIGGER x"),
        ("CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM t; END", "CREATE TEMP TRIGGER x"),
        ("CREATE VIRTUAL TABLE x USING fts5(a)", "CREATE VTABLE x"),
        ("ALTER TABLE t RENAME TO x", "to use function: sqlite_rename_table"),
        ("ALTER TABLE t RENAME COLUMN at TO x", "to use function: sqlite_rename_column"),
        ("ALTER TABLE t DROP COLUMN at", "to use function: sqlite_drop_column"),
        ("PRAGMA writable_schema = 1", "PRAGMA writable_schema"),
        ("PRAGMA journal_mode = WAL", "PRAGMA journal_mode"),
        ("PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys"),
        ("SELECT * FROM pragma_journal_mode", "PRAGMA journal_mode"),
        ("SELECT * FROM pragma_database_list", "PRAGMA database_list"),
        ("SELECT load_extension('x.so')", "to use function: load_extension"),
        ("SELECT fts3_tokenizer('simple')", "to use function: fts3_tokenizer"),
        ("ANALYZE", "ANALYZE t"),
    ],
)
def test_authorizer_refuses_what_static_rules_should_have_caught(
    begun: GuestRunner, work: Path, statement: str, refused: str
) -> None:
    sql(begun, SCHEMA)
    seen = sql(begun, statement)

    message = str(seen.record["message"])
    assert message.startswith("not authorized")
    assert message.endswith(refused)
    assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD COLUMN extra TEXT DEFAULT 'x' NOT NULL",
        "CREATE INDEX IF NOT EXISTS i ON t (at)",
        "CREATE VIEW IF NOT EXISTS v AS SELECT * FROM t",
        "CREATE TABLE IF NOT EXISTS u AS SELECT * FROM t",
        "CREATE TEMP TABLE IF NOT EXISTS s (a)",
        "INSERT INTO t (name) VALUES ('a') ON CONFLICT (name) DO UPDATE SET at = 1",
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n",
        "PRAGMA table_info(t)",
        "PRAGMA foreign_keys = ON; PRAGMA foreign_keys",
        "EXPLAIN QUERY PLAN SELECT * FROM t WHERE id = 1",
        "SELECT json_group_array(name), group_concat(at) FROM t",
        "BEGIN; DELETE FROM t WHERE id = 1; SAVEPOINT s; RELEASE s; COMMIT",
    ],
)
def test_authorizer_lets_pass_what_the_rules_allow(begun: GuestRunner, statement: str) -> None:
    sql(begun, SCHEMA)

    assert sql(begun, statement).record["status"] == "returned"


def test_full_text_tables_of_a_submitted_database_work_also_from_triggers(
    begun: GuestRunner, tmp_path: Path
) -> None:
    given = database(
        tmp_path / "given",
        SCHEMA,
        "CREATE VIRTUAL TABLE f USING fts5(name, content = 't', content_rowid = 'id')",
        "CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO f (rowid, name) VALUES (new.id, new.name); END",
    )
    begun.send("database", given)
    seen = sql(begun, "INSERT INTO t (name) VALUES ('red car'), ('blue car'); SELECT rowid FROM f('blue')")

    assert seen.output("stdout") == b"rowid\n2\n"


@pytest.mark.parametrize(("levels", "status"), [(900, "returned"), (1100, "failed")])
def test_triggers_nest_as_deep_as_sqlite_allows_by_itself(
    begun: GuestRunner, tmp_path: Path, levels: int, status: str
) -> None:
    counting = (
        "CREATE TRIGGER a AFTER INSERT ON t WHEN new.id < 2000 BEGIN INSERT INTO t VALUES (new.id + 1); END"
    )
    begun.send("database", database(tmp_path / "given", "CREATE TABLE t (id INTEGER)", counting))
    text = f"PRAGMA recursive_triggers = ON; INSERT INTO t VALUES ({2000 - levels})"
    seen = sql(begun, text, pragma="recursive_triggers")

    assert seen.record["status"] == status


def test_function_that_reaches_out_does_not_run_from_a_view_of_the_database(begun: GuestRunner) -> None:
    sql(begun, f"{SCHEMA}; CREATE VIEW v AS SELECT load_extension('x.so') AS a", mode="schema")
    seen = sql(begun, "SELECT * FROM v")

    assert seen.record["status"] == "failed"
    assert "load_extension" in str(seen.record["message"])


def test_failing_unit_leaves_the_database_as_it_was(begun: GuestRunner) -> None:
    sql(begun, f"{SCHEMA}; INSERT INTO t (name) VALUES ('kept')")
    sql(begun, "BEGIN; INSERT INTO t (name) VALUES ('lost'); COMMIT; SELECT * FROM gone")
    seen = sql(begun, "SELECT name FROM t")

    assert seen.output("stdout") == b"name\nkept\n"


def test_unit_that_is_killed_leaves_the_database_as_it_was(begun: GuestRunner, work: Path) -> None:
    sql(begun, f"{SCHEMA}; INSERT INTO t (name) VALUES ('kept')")
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    seen = sql(begun, f"DELETE FROM t WHERE id = 1; {endless}", deadline_s=0.3)

    assert seen.end["end"] == "deadline"
    assert list(work.iterdir()) == []
    assert sql(begun, "SELECT name FROM t").output("stdout") == b"name\nkept\n"


def test_other_units_never_meet_the_database(begun: GuestRunner) -> None:
    begun.file("data/a.txt", b"")
    sql(begun, SCHEMA)
    seen = bash(begun, "echo .database/* * .[!.]*; mkdir .database; echo junk > .database/pipeline.sqlite")

    assert seen.output("stdout") == b".database/* data .[!.]*\n"
    assert sql(begun, "SELECT count(*) FROM t").record["status"] == "returned"


@pytest.mark.parametrize(
    "trap", ["ln -s /etc .database", "touch .database", "mkdir -p .database/x; chmod 0 .database"]
)
def test_traps_in_the_place_of_the_database_go(begun: GuestRunner, trap: str) -> None:
    bash(begun, trap)

    assert sql(begun, SCHEMA).record["status"] == "returned"


def test_rows_are_printed_up_to_a_number_and_counted_beyond(begun: GuestRunner) -> None:
    numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 7) SELECT i FROM n"
    seen = sql(begun, f"SELECT 'first'; {numbers}")

    assert seen.record["rows"] == 8
    assert seen.output("stdout") == b"'first'\nfirst\n\ni\n1\n2\n3\n4\n"
    assert seen.output("stderr") == b"statement 2: 7 rows, 4 shown\n"


def test_cells_are_printed_so_that_a_row_stays_a_line(begun: GuestRunner) -> None:
    seen = sql(
        begun, "SELECT NULL, 1.5, x'00ff', 'a\tb\nc', replace(hex(zeroblob(50)), '0', 'z'), zeroblob(50)"
    )

    (_, line) = seen.output("stdout").decode().splitlines()
    assert line.split("\t") == ["NULL", "1.5", "x'00ff'", "a\\tb\\nc", "z" * 20 + "…", "x'" + "0" * 18 + "…"]


def test_file_of_the_sandbox_is_read_as_a_table(begun: GuestRunner) -> None:
    begun.file("data/sales.csv", '\ufeffregion, amount,region\nnorth,"1,5",x\n\nsouth,2\n'.encode())
    seen = sql(begun, 'SELECT * FROM "data/sales.csv"; SELECT typeof(amount) FROM [data/sales.csv] LIMIT 1')

    assert seen.output("stdout") == (
        b"region\tamount\tregion_2\nnorth\t1,5\tx\nsouth\t2\tNULL\n\ntypeof(amount)\ntext\n"
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data/gone.csv", None, 'unable to open "data/gone.csv": No such file or directory'),
        ("../x.csv", None, 'unable to open "../x.csv": it is outside the sandbox'),
        ("/etc/x.csv", None, 'unable to open "/etc/x.csv": No such file or directory'),
        ("a.csv", b"", "a.csv has no first line that names its columns"),
        ("a.csv", b"a,b\n1,2,3\n", "a.csv, record 2: 3 fields, and 2 columns"),
        ("a.csv", b"a,b\n\xff,2\n", "a.csv is not UTF-8 text"),
        ("a.csv", b'a,b\n"1"x,2\n', "a.csv: ',' expected after '\"'"),
    ],
)
def test_file_that_is_no_table_is_told(
    begun: GuestRunner, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        begun.file(name, content)
    seen = sql(begun, f'SELECT * FROM "{name}"')

    assert seen.record["message"] == message


def test_link_is_not_read_as_a_table(begun: GuestRunner) -> None:
    bash(begun, "mkdir data; ln -s /etc/passwd data/x.csv; ln -s /etc other")
    seen = sql(begun, 'SELECT * FROM "data/x.csv"')

    assert seen.record["message"] == 'unable to open "data/x.csv": Too many levels of symbolic links'
    assert "unable to open" in str(sql(begun, 'SELECT * FROM "other/passwd.csv"').record["message"])


def test_schema_may_hold_what_a_dump_holds(begun: GuestRunner) -> None:
    dump = f"""
        PRAGMA foreign_keys=OFF; BEGIN TRANSACTION; CREATE TABLE b (a REFERENCES t (id));
        INSERT INTO b VALUES (1); {SCHEMA};
        CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM t WHERE id = 9; SELECT 1; END; COMMIT;
    """

    assert sql(begun, dump, mode="schema").record["status"] == "returned"
    assert sql(begun, "INSERT INTO t (id) VALUES (9)").record["changes"] == 2


def test_foreign_keys_are_enforced_in_steps(begun: GuestRunner) -> None:
    sql(begun, f"{SCHEMA}; CREATE TABLE b (a REFERENCES t (id))", mode="schema")
    seen = sql(begun, "INSERT INTO b VALUES (1)")

    assert seen.record["message"] == "FOREIGN KEY constraint failed"


@pytest.mark.parametrize(
    ("damage", "words"),
    [(slice(0, 16), "file is not a database"), (slice(4096, 4200), "malformed")],
    ids=["header", "page"],
)
def test_damaged_database_is_found_by_the_check(
    begun: GuestRunner, tmp_path: Path, damage: slice, words: str
) -> None:
    content = bytearray(database(tmp_path / "given", SCHEMA, "INSERT INTO t (name) VALUES ('a')"))
    content[damage] = b"\xff" * (damage.stop - damage.start)
    begun.send("database", bytes(content))
    seen = sql(begun, "", mode="check")

    assert seen.record["status"] == "failed"
    assert words in str(seen.record["message"])


def test_sound_database_passes_the_check(begun: GuestRunner, tmp_path: Path) -> None:
    begun.send("database", database(tmp_path / "given", SCHEMA))

    assert sql(begun, "", mode="check").record["status"] == "returned"


def test_database_cannot_grow_beyond_what_may_leave(begun: GuestRunner) -> None:
    seen = sql(begun, "CREATE TABLE b AS SELECT zeroblob(2000000) AS z")

    assert seen.record["message"] == "database or disk is full"
    assert seen.record["code"] == "SQLITE_FULL"


def test_endless_bytes_end_at_the_output_limit(begun: GuestRunner) -> None:
    numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    seen = sql(begun, numbers, max_rows=10**9)

    assert seen.end["end"] == "output_limit"


IDLE = f"{SCHEMA};\nINSERT INTO t (name) VALUES ('a');\n"


@pytest.mark.parametrize(
    ("statement", "idle"),
    [
        ("UPDATE t SET at = 1 WHERE name = 'A'", ["UPDATE", "t"]),
        ("DELETE FROM t WHERE id = 77", ["DELETE", "t"]),
        ("INSERT INTO t (name) SELECT name || 'x' FROM t WHERE at > 5", ["INSERT", "t"]),
        ("WITH old AS (SELECT id FROM t WHERE id > 9) DELETE FROM t WHERE id IN old", ["DELETE", "t"]),
        (
            "WITH x AS (SELECT name FROM t WHERE id > 9) INSERT INTO t (name) SELECT name FROM x",
            ["INSERT", "t"],
        ),
        ("CREATE TABLE IF NOT EXISTS u AS SELECT * FROM t WHERE id > 9", ["CREATE TABLE", "u"]),
        ("CREATE TABLE u AS SELECT * FROM t WHERE id > 9", ["CREATE TABLE", "u"]),
    ],
)
def test_a_statement_that_changes_no_row_is_told(begun: GuestRunner, statement: str, idle: list[str]) -> None:
    begun.send("database", b"")
    assert sql(begun, f"{IDLE}{statement};\n").record["idle"] == [[3, *idle]]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET at = 1 WHERE name = 'a'",
        "INSERT OR IGNORE INTO t (id, name) VALUES (1, 'b')",
        "INSERT INTO t (name) SELECT name FROM t WHERE name NOT IN (SELECT name FROM t)",
        "CREATE TABLE u (a); UPDATE u SET a = 1; DELETE FROM u WHERE a = 2",
        "SELECT * FROM t WHERE id = 77",
        "UPDATE t SET name = TRIM(name) WHERE name <> TRIM(name)",
        "DELETE FROM t WHERE at < 0 OR name = ''",
        "CREATE TABLE u AS SELECT * FROM t",
        "CREATE TABLE u (a); CREATE TABLE v AS SELECT * FROM u",
        "CREATE TABLE u (a, at AS (a + 1))",
    ],
)
def test_a_statement_that_changes_rows_or_is_meant_to_run_again_is_not_told(
    begun: GuestRunner, statement: str
) -> None:
    begun.send("database", b"")
    record = sql(begun, f"{IDLE}{statement};\n").record
    assert (record["status"], record.get("idle")) == ("returned", None)
