"""Pipelines: what is accepted, what is planned, and how a run is judged."""

from __future__ import annotations

import base64
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import ValidationError

from assayd.analysis.shfmt import read_shell
from assayd.errors import RequestError
from assayd.kinds.pipeline.payload import PipelinePayload
from assayd.kinds.pipeline.validator import validator
from assayd.model.finding import Finding
from assayd.model.report import Judgement
from assayd.model.run import Captured, Cause, Limits, Outcome, Program, RunEnd, RunResult, UnitResult, Usage
from assayd.package_data import share
from assayd.policies import load_policies
from assayd.ports.validator import FileOptions, OnFail
from assayd.static.shell.parse import reader

POLICY = load_policies([share("policies")]).get("pipeline")
LIMITS = Limits(timeout_s=60, unit_timeout_s=10, memory_bytes=2**28, max_processes=16)
BASH = {"name": "clean up", "type": "bash", "content": "cat data/a\n"}
SQL = {"name": "load", "type": "sql", "content": "SELECT 1;\nSELECT * FROM t;\n"}
RAN = b'{"status":"returned","statements":2,"rows":3,"changes":4}'


@pytest.fixture(autouse=True)
def _shell() -> None:
    reader.install(read_shell)


def payload(*steps: dict[str, str], **more: object) -> PipelinePayload:
    return PipelinePayload.model_validate_json(json.dumps({"steps": steps, **more}))


def static(submitted: PipelinePayload) -> list[Finding]:
    """Return the findings of the first stage that has any."""
    return next((list(found) for stage in validator.stages if (found := stage.check(submitted, POLICY))), [])


def done(name: str, record: bytes | None = None) -> UnitResult:
    results = () if record is None else (record,)
    return UnitResult(name=name, wait_status=0, results=results, outcome=Outcome(cause=Cause.COMPLETED))


def failed(
    name: str, *, cause: Cause = Cause.EXITED_NONZERO, stderr: str = "", record: object = None
) -> UnitResult:
    return UnitResult(
        name=name,
        wait_status=9 if cause is Cause.TIMEOUT else 1 << 8,
        results=() if record is None else (json.dumps(record).encode(),),
        stderr=Captured(head=stderr.encode(), total_bytes=len(stderr)),
        usage=Usage(wall_s=10.0),
        outcome=Outcome(cause=cause),
    )


def judge(submitted: PipelinePayload, *units: UnitResult, **more: object) -> Judgement:
    outcome = next((unit.outcome for unit in units if not unit.outcome.completed), units[-1].outcome)
    result = RunResult(units=units, end=RunEnd.FINISHED, outcome=outcome, **more)  # type: ignore[arg-type]
    return validator.judge(submitted, POLICY, result)


def sandbox(judgement: Judgement) -> list[Finding]:
    return list(judgement.stage_findings["sandbox"])


# What is accepted.


@pytest.mark.parametrize(
    ("document", "field", "words"),
    [
        ({}, (), "give steps, or the pipeline_id"),
        ({"steps": [{**BASH, "content": " \n"}]}, ("steps", 0, "content"), "a step has content"),
        ({"steps": [{**BASH, "content": "a\0"}]}, ("steps", 0, "content"), "no NUL"),
        ({"steps": [{"name": "a", "type": "bash"}]}, ("steps", 0, "content"), "Field required"),
        ({"steps": [{**BASH, "name": "../x"}]}, ("steps", 0, "name"), "no slashes, no '..'"),
        ({"steps": [{**BASH, "name": ""}]}, ("steps", 0, "name"), "1 to 64 characters"),
        ({"steps": [{**BASH, "type": "python"}]}, ("steps", 0, "type"), "'bash' or 'sql'"),
        ({"steps": [BASH] * 1000}, ("steps",), "at most 100 items"),
        ({"steps": [BASH], "database": {}}, ("database",), "either schema_sql or base64"),
        ({"steps": [BASH], "database": {"base64": "!"}}, ("database", "base64"), "is not base64"),
        ({"steps": [BASH], "database": {"base64": "AAAA"}}, ("database", "base64"), "not a SQLite database"),
        (
            {"steps": [BASH], "files": {"a": {"base64": "!"}}},
            ("files", "a", "Encoded", "base64"),
            "not base64",
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

    built = validator.from_files(files, FileOptions(extra={"pipeline_id": "0" * 26}))

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
        ({"a.sh": b"\xff"}, {}, "a.sh is not UTF-8 text"),
        ({"a.sh": b"true"}, {"extra": {"x": "y"}}, "takes files and --option pipeline_id"),
    ],
)
def test_files_that_make_no_pipeline_are_refused(
    files: dict[str, bytes], options: dict[str, object], words: str
) -> None:
    with pytest.raises(RequestError, match=words):
        validator.from_files(files, FileOptions(**options))  # type: ignore[arg-type]


# The static stages.


@pytest.mark.parametrize(
    ("submitted", "rule", "line"),
    [
        (payload({**BASH, "content": "ls\nif true; then"}), "shell.syntax", 2),
        (payload(BASH, {**SQL, "content": "SELECT 1;\nSELCT"}), "sql.syntax", 2),
        (payload({**BASH, "content": "cat a\nrm a"}), "command.blocked", 2),
        (payload(BASH, {**SQL, "content": "SELECT 1;\n\nDROP TABLE t"}), "sql.drop", 3),
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
    (finding,) = static(payload(BASH, {**BASH, "name": "drop it", "content": "rm x"}))

    assert finding.message.startswith("Step 2 (drop it): ")
    assert finding.context == "Step 2 (drop it)"


def test_bash_is_not_read_as_sql_nor_sql_as_bash() -> None:
    assert (
        static(payload({**BASH, "content": "echo 'DROP TABLE t'"}, {**SQL, "content": "SELECT 'rm -rf /'"}))
        == []
    )


def test_rules_follow_the_policy() -> None:
    from assayd.policies import tighten

    policy = tighten(POLICY, {"commands": {"blocked": ["cat"]}, "sql": {"max_statements": 1}})
    commands, sql = (stage.check for stage in validator.stages[1:])
    parse = validator.stages[0].check

    assert [f.rule for f in commands(payload(BASH), policy)] == ["command.blocked"]
    assert [f.rule for f in parse(payload(SQL), policy)] == ["sql.too_large"]
    assert sql(payload(SQL), policy) == []


def test_marks_and_line_ends_of_other_systems_are_taken_off_before_all_else() -> None:
    submitted = payload({**BASH, "content": "\ufeffcat data/a\r\n"}, SQL)

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


def test_steps_that_end_well_pass() -> None:
    judgement = judge(payload(BASH, SQL), done("clean up"), done("load", RAN))

    assert sandbox(judgement) == []
    assert [(case.name, case.status, case.exit_code, case.result) for case in judgement.cases] == [
        ("clean up", "passed", 0, None),
        ("load", "passed", 0, {"statements": 2, "rows": 3, "changes": 4}),
    ]


@pytest.mark.parametrize(
    ("stderr", "rule", "line"),
    [
        ("cat: data/a: No such file or directory\n", "step.file_not_found", None),
        ("scripts/01_clean_up.sh: line 1: frob: command not found\n", "step.command_not_found", 1),
        ("scripts/01_clean_up.sh: line 99: frob: command not found\n", "step.command_not_found", None),
        ("cp: cannot create regular file '/etc/x': Read-only file system\n", "step.permission_denied", None),
        ("all is well\n", "step.unknown", None),
        ("", "step.unknown", None),
    ],
)
def test_bash_step_that_fails_is_put_into_a_class(stderr: str, rule: str, line: int | None) -> None:
    judgement = judge(payload(BASH, SQL), failed("clean up", stderr=stderr))

    (finding,) = sandbox(judgement)
    assert (finding.rule, finding.line) == (rule, line)
    assert finding.message.startswith("Step 1 (clean up): ")
    assert "(exit code 1)" in finding.message
    assert finding.suggestion
    first, second = judgement.cases
    assert (first.status, first.exit_code, first.error_type) == ("failed", 1, rule.removeprefix("step."))
    assert (second.status, second.exit_code) == ("skipped", None)


def sql_failure(message: str, **changes: object) -> dict[str, object]:
    place = {"statement": 2, "line": 2, "column": 15, "text": "SELECT * FROM t", "code": "SQLITE_ERROR"}
    counts = {"statements": 1, "rows": 1, "changes": 0}
    return {"status": "failed", **counts, **place, "message": message, **changes}


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ("no such table: t", "step.table_missing"),
        ('near ")": syntax error', "step.syntax_error"),
        ("NOT NULL constraint failed: t.a", "step.data_validation"),
        ("table t has no column named b", "step.schema_mismatch"),
        ('unable to open "data/x.csv": No such file or directory', "step.file_not_found"),
    ],
)
def test_sql_step_that_fails_is_told_with_its_place(message: str, rule: str) -> None:
    judgement = judge(payload(SQL), failed("load", record=sql_failure(message)))

    (finding,) = sandbox(judgement)
    assert (finding.rule, finding.line, finding.column) == (rule, 2, 15)
    assert finding.snippet == "SELECT * FROM t;"
    assert finding.message == f"Step 1 (load): statement 2: {message}."
    (case,) = judgement.cases
    assert (case.status, case.message, case.traceback, case.line) == ("failed", message, "SELECT * FROM t", 2)


@pytest.mark.parametrize(
    ("message", "names", "remedy"),
    [
        ("no such column: amuont", {"sales": ["region", "amount"]}, "Did you mean amount?"),
        ("table sales has no column named amuont", {"sales": ["amount"]}, "Did you mean amount?"),
        ("no such table: slaes", {"sales": ["region"]}, "Did you mean sales?"),
        ("no such column: zzz", {"sales": ["region"]}, "The columns are: sales (region)."),
        ("no such function: median", {}, "belongs to the sqlite3 shell"),
        ("no such table: generate_series", {}, "WITH RECURSIVE"),
        ("no such column: x", {"t": [7, "a"], "u": "no list"}, "The columns are: t (a)."),
    ],
)
def test_name_that_sqlite_does_not_know_comes_with_the_one_that_was_meant(
    message: str, names: object, remedy: str
) -> None:
    judgement = judge(payload(SQL), failed("load", record=sql_failure(message, names=names)))

    (finding,) = sandbox(judgement)
    assert remedy in (finding.suggestion or "")


def test_last_lines_of_standard_error_stand_in_finding_and_retry_context() -> None:
    stderr = (
        "".join(f"line {n}\n" for n in range(40)) + "awk: cmd. line:1: (FILENAME=data/x FNR=2) fatal: oops\n"
    )

    (finding,) = sandbox(judge(payload(BASH), failed("clean", stderr=stderr)))

    assert "line 39\nawk: cmd. line:1" in (finding.context or "")
    assert "line 30" not in (finding.context or "")
    assert "fatal: oops" in validator.retry_context([finding], "sandbox")


def test_faults_of_all_steps_come_together() -> None:
    submitted = payload(
        {"name": "a", "type": "bash", "content": "if true; then"},
        {"name": "b", "type": "bash", "content": "rm data/x"},
        {"name": "c", "type": "sql", "content": "SELCT 1"},
        {"name": "d", "type": "sql", "content": "DROP TABLE t"},
    )

    found = [finding.rule for stage in validator.stages for finding in stage.check(submitted, POLICY)]

    assert found == ["shell.syntax", "sql.syntax", "command.blocked", "sql.drop"]
    assert {stage.on_fail for stage in validator.stages} == {OnFail.CONTINUE}


def test_place_that_is_not_in_the_text_is_not_told() -> None:
    (finding,) = sandbox(judge(payload(SQL), failed("load", record=sql_failure("x", line=99))))

    assert (finding.line, finding.column, finding.snippet) == (None, None, None)


@pytest.mark.parametrize("step", [BASH, SQL], ids=["bash", "sql"])
def test_step_that_is_killed_at_its_deadline_is_a_timeout(step: dict[str, str]) -> None:
    judgement = judge(payload(step), failed(step["name"], cause=Cause.TIMEOUT))

    (finding,) = sandbox(judgement)
    assert finding.rule == "sandbox.timeout"
    spent = "it waited 10 s without computing (a sleep, a lock or a read?)"
    assert finding.message == f"Step 1 ({step['name']}): It ran out of time (limit of the unit): {spent}."
    (case,) = judgement.cases
    assert (case.status, case.exit_code, case.error_type) == ("error", None, "timeout")


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"[]",
        b'{"status":"returned"}',
        b'{"status":"returned","statements":-1,"rows":0,"changes":0}',
        b"{}",
    ],
)
def test_record_that_is_none_is_no_pass(record: bytes) -> None:
    judgement = judge(payload(SQL), done("load", record))

    assert [finding.rule for finding in sandbox(judgement)] == ["sandbox.protocol_violation"]
    assert judgement.cases[0].status == "error"


def test_claim_of_success_beside_an_exit_code_is_no_pass() -> None:
    judgement = judge(payload(SQL), failed("load", record=json.loads(RAN)))

    assert [finding.rule for finding in sandbox(judgement)] == ["sandbox.exited_nonzero"]


def test_schema_that_sqlite_refuses_is_told_with_its_place() -> None:
    submitted = payload(SQL, database={"schema_sql": "CREATE TABLE t (a);\nCREATE TABEL u"})
    record = sql_failure('near "TABEL": syntax error', line=2, column=8)

    judgement = judge(submitted, failed("database", record=record))

    (finding,) = sandbox(judgement)
    assert (finding.rule, finding.line, finding.column) == ("database.schema", 2, 8)
    assert finding.message == 'payload.database.schema_sql: near "TABEL": syntax error.'
    assert [case.status for case in judgement.cases] == ["skipped"]


def test_step_without_a_result_is_never_passed_over() -> None:
    judgement = judge(payload(BASH, SQL), done("clean up"))

    assert [finding.rule for finding in sandbox(judgement)] == ["sandbox.protocol_violation"]


def test_changed_file_that_was_left_behind_fails_the_run() -> None:
    judgement = judge(payload(BASH), done("clean up"), outputs_dropped=("'data/x' is one file too many",))

    (finding,) = sandbox(judgement)
    assert finding.rule == "outputs.incomplete"
    assert "one file too many" in finding.message


def test_retry_context_names_the_step_and_what_is_allowed() -> None:
    findings = static(payload({**BASH, "content": "rm x"}))

    words = validator.retry_context(findings, "commands")

    assert words.startswith("Bash steps do what they may not do:")
    assert "Step 1 (clean up)" in words
    assert "UPDATE and DELETE need WHERE" in words
