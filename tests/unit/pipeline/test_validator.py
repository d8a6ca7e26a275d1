"""Pipelines: which are accepted, and their plans."""

from __future__ import annotations

import base64
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import ValidationError

from assayd.errors import RequestError
from assayd.model.run import Program
from assayd.ports.command_line import FileOptions
from assayd_pipeline.command_line import SQLITE_HEADER, from_files
from assayd_pipeline.payload import PipelinePayload
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.validator import validator
from assayd_pipeline.worker import parse_shell
from support.texts.pipeline_runs import (
    BASH,
    LIMITS,
    POLICY,
    SQL,
    payload,
    static,
)


@pytest.fixture(autouse=True)
def _shell() -> None:
    reader.install_reader(parse_shell)


# What is accepted.


@pytest.mark.parametrize(
    ("document", "field", "words"),
    [
        ({}, (), "pass steps, or the pipeline_id"),
        ({"steps": [{**BASH, "content": " \n"}]}, ("steps", 0, "content"), "a step must have content"),
        ({"steps": [{**BASH, "content": "a\0"}]}, ("steps", 0, "content"), "must not have a NUL"),
        ({"steps": [{"name": "a", "type": "bash"}]}, ("steps", 0, "content"), "Field required"),
        ({"steps": [{**BASH, "name": "../x"}]}, ("steps", 0, "name"), "must not have slashes, '..'"),
        ({"steps": [{**BASH, "name": ""}]}, ("steps", 0, "name"), "1 to 64 characters"),
        ({"steps": [{**BASH, "type": "python"}]}, ("steps", 0, "type"), "'bash' or 'sql'"),
        ({"steps": [BASH] * 1000}, ("steps",), "at most 100 items"),
        ({"steps": [BASH], "database": {}}, ("database",), "either schema_sql or base64"),
        ({"steps": [BASH], "database": {"base64": "!"}}, ("database", "base64"), "isn't valid base64"),
        (
            {"steps": [BASH], "database": {"base64": "AAAA"}},
            ("database", "base64"),
            "isn't a SQLite database",
        ),
        (
            {"steps": [BASH], "files": {"a": {"base64": "!"}}},
            ("files", "a", "Encoded", "base64"),
            "isn't valid base64",
        ),
        ({"steps": [BASH], "pipeline_id": "x"}, ("pipeline_id",), "match pattern"),
        ({"steps": [BASH], "command": "x"}, ("command",), "Extra inputs"),
    ],
)
def test_what_is_no_pipeline_is_refused_with_its_field(
    document: dict[str, object], field: tuple[object, ...], words: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        PipelinePayload.model_validate_json(json.dumps(document))
    found = {error["loc"]: error["msg"] for error in caught.value.errors()}
    assert words in found[field]


def test_rows_of_a_database_file_are_shown_where_that_is_asked_for() -> None:
    files = {"a.sql": b"SELECT 1", "b.db": SQLITE_HEADER}
    asked = FileOptions(extra={"sample_rows": "true"})
    header = base64.b64encode(SQLITE_HEADER).decode()
    assert from_files(files, asked)["database"] == {"base64": header, "sample_rows": True}
    with pytest.raises(RequestError, match="database file"):
        from_files({"a.sql": b"SELECT 1", "schema.sql": b""}, asked)


def test_files_of_a_command_line_become_steps_data_and_a_database(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute("CREATE TABLE t (a)")
    content = (tmp_path / "x.db").read_bytes()
    files = {
        "02_load.sql": b"SELECT 1",
        "01_a.sh": b"true",
        "a.csv": b"a\n",
        "in/b.bin": b"\xff",
        "shop": content,
    }

    built = from_files(files, FileOptions(extra={"pipeline_id": "0" * 26}))

    assert built == {
        "steps": [
            {"name": "01_a", "type": "bash", "content": "true"},
            {"name": "02_load", "type": "sql", "content": "SELECT 1"},
        ],
        "files": {"data/a.csv": "a\n", "in/b.bin": {"base64": "/w=="}},
        "database": {"base64": base64.b64encode(content).decode()},
        "pipeline_id": "0" * 26,
    }


@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        ({"a.db": b"", "schema.sql": b"x"}, {}, "one database, not a.db, schema.sql"),
        ({"a.sh": b"\xff"}, {}, "a.sh isn't UTF-8 text"),
        ({"a.sh": b"true"}, {"extra": {"x": "y"}}, "accepts only files, --option pipeline_id"),
    ],
)
def test_files_that_make_no_pipeline_are_refused(
    files: dict[str, bytes], options: dict[str, object], words: str
) -> None:
    with pytest.raises(RequestError, match=words):
        from_files(files, FileOptions(**options))  # type: ignore[arg-type]


# The static stages.


@pytest.mark.parametrize(
    ("submitted", "rule", "line"),
    [
        (payload({**BASH, "content": "ls\nif true; then"}), "shell.syntax", 2),
        (payload(BASH, {**SQL, "content": "SELECT 1;\nSELCT"}), "sql.syntax", 2),
        (payload({**BASH, "content": "cat a\nrm a"}), "command.blocked", 2),
        (payload({**SQL, "content": "SELECT 1;\n\nDROP TABLE t"}), "sql.drop", 3),
        (payload(BASH, files={"../x": ""}), "path.invalid", None),
        (payload(BASH, files={"scripts/01.sh": ""}), "path.reserved", None),
        (payload(BASH, files={"database.sqlite": ""}), "path.reserved", None),
        (payload(pipeline_id="0" * 26), "pipeline.no_steps", None),
    ],
)
def test_bad_step_is_found_with_its_line(submitted: PipelinePayload, rule: str, line: int | None) -> None:
    (finding,) = static(submitted)

    assert (finding.rule, finding.line) == (rule, line)


def test_finding_says_whose_it_is() -> None:
    (finding,) = static(payload(SQL, {**BASH, "name": "drop it", "content": "rm x"}))

    assert finding.message.startswith("Step 2 (drop it): ")
    assert finding.context == "Step 2 (drop it)"


def test_bash_is_not_read_as_sql_nor_sql_as_bash() -> None:
    assert (
        static(payload({**BASH, "content": "echo 'DROP TABLE t'"}, {**SQL, "content": "SELECT 'rm -rf /'"}))
        == []
    )


def test_rules_follow_the_policy() -> None:
    from assayd.policies import tighten_policy

    policy = tighten_policy(POLICY, {"commands": {"blocked": ["cat"]}, "sql": {"max_statements": 1}})
    commands, sql = (stage.check for stage in validator.stages[1:])
    parse = validator.stages[0].check

    assert [f.rule for f in commands(payload(BASH), policy)] == ["command.blocked"]
    assert [f.rule for f in parse(payload(SQL), policy)] == ["sql.too_large"]
    assert sql(payload(SQL), policy) == []


def test_marks_and_line_ends_of_other_systems_are_taken_off_before_all_else() -> None:
    submitted = payload({**BASH, "content": "\ufeffcat data/a\r\n"}, SQL, files={"data/a": "x\n"})

    prepared = validator.prepare(submitted)

    assert static(submitted) == []
    assert [step.content for step in prepared.steps] == [BASH["content"], SQL["content"]]  # type: ignore[attr-defined]
    assert validator.prepare(payload(BASH)) == payload(BASH)


# The plan.


def test_steps_become_units_that_bring_their_own_text() -> None:
    spec = validator.plan(payload(BASH, SQL, files={"data/a": "1"}), POLICY, LIMITS)

    first, second = spec.units
    assert (first.program, second.program) == (Program.EXEC, Program.SQL)
    assert first.arguments["argv"] == ["/usr/bin/bash", "--noprofile", "--norc", "scripts/01_clean_up.sh"]
    assert first.files == {"scripts/01_clean_up.sh": b"cat data/a\n"}
    assert (second.files.keys(), second.log) == ({"scripts/02_load.sql"}, "logs/02_load")
    assert second.arguments["sql"] == SQL["content"]
    assert {unit.fresh_cwd for unit in spec.units} == {False}
    assert {unit.deadline_s for unit in spec.units} == {10}
    assert (spec.stop_on_failure, spec.changed_only, spec.database) == (True, True, b"")
    assert spec.folders == ("data", "tmp", "scripts", "logs")


def test_schema_is_run_and_a_file_is_checked_before_the_first_step(tmp_path: Path) -> None:
    made = validator.plan(payload(SQL, database={"schema_sql": "CREATE TABLE t (a)"}), POLICY, LIMITS)
    with closing(sqlite3.connect(tmp_path / "x")) as connection:
        connection.execute("CREATE TABLE t (a)")
    content = (tmp_path / "x").read_bytes()
    given = payload(SQL, database={"base64": base64.b64encode(content).decode()})
    checked = validator.plan(given, POLICY, LIMITS)

    assert (made.units[0].arguments["mode"], made.database) == ("schema", b"")
    assert (checked.units[0].arguments["mode"], checked.database) == ("check", content)
    assert [unit.name for unit in checked.units] == ["database", "load"]


# The judgement.
