"""The judgement of a pipeline's run."""

from __future__ import annotations

import json

import pytest

from assayd.kind import FailureAction
from assayd.model.run import Cause, OutputFile
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.validator import validator
from assayd_pipeline.worker import parse_shell
from support.texts.pipeline_runs import (
    BASH,
    POLICY,
    RAN,
    SQL,
    done,
    failed,
    judge,
    payload,
    sandbox,
    static,
)


@pytest.fixture(autouse=True)
def _shell() -> None:
    reader.install_reader(parse_shell)


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
        ("cat: data/a: No such file or directory\n", "step.file_not_found", 1),
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
    assert finding.file == "clean up"
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
        ("no such function: median", {}, "exists only in the sqlite3 shell"),
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

    findings = [finding for stage in validator.stages for finding in stage.check(submitted, POLICY)]
    found = [finding.rule for finding in findings]

    assert [finding.file for finding in findings] == ["a", "c", "b", "d"]
    assert found == ["shell.syntax", "sql.syntax", "command.blocked", "sql.drop"]
    assert {stage.on_fail for stage in validator.stages} == {FailureAction.CONTINUE}


def test_place_that_is_not_in_the_text_is_not_told() -> None:
    (finding,) = sandbox(judge(payload(SQL), failed("load", record=sql_failure("x", line=99))))

    assert (finding.line, finding.column, finding.snippet) == (None, None, None)


@pytest.mark.parametrize("step", [BASH, SQL], ids=["bash", "sql"])
def test_step_that_is_killed_at_its_deadline_is_a_timeout(step: dict[str, str]) -> None:
    judgement = judge(payload(step), failed(step["name"], cause=Cause.TIMEOUT))

    (finding,) = sandbox(judgement)
    assert finding.rule == "sandbox.timeout"
    spent = "it waited 10 s without computing"
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
    assert finding.file == "schema.sql"
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

    assert words.startswith("Bash steps do something that isn't allowed:")
    assert "1. line 1: Step 1 (clean up)" in words
    assert "Bash steps may run" in words


def test_retry_context_says_what_the_effective_policy_asks_for() -> None:
    findings = static(payload({**SQL, "content": "DROP TABLE t"}))
    analysis = load_policies([get_shared_data_path("policies")]).get("analysis")

    strict, free = (validator.retry_context(findings, "sql", policy) for policy in (POLICY, analysis))

    assert "Not allowed in SQL: CREATE without IF NOT EXISTS; UPDATE without WHERE" in strict
    assert "Not allowed in SQL: TRUNCATE, ATTACH" in free
    assert "Bash steps may" not in strict


def test_file_that_is_not_there_is_told_with_those_that_steps_made() -> None:
    made = (
        OutputFile(name="data/cleaned.csv", content=b"a,b\n"),
        OutputFile(name="database.sqlite", content=b"x"),
    )
    record = sql_failure('unable to open "data/clean.csv": No such file or directory')
    judgement = judge(payload(SQL), failed("load", record=record), outputs=made)

    (finding,) = sandbox(judgement)
    assert "Did you mean data/cleaned.csv?" in (finding.suggestion or "")
    assert (finding.context or "").endswith("made before: data/cleaned.csv (4 bytes)")


def test_file_that_is_missing_is_reported_with_all_steps_that_name_it() -> None:
    twice = payload({**BASH, "content": "wc -l data/gone.csv"}, {**BASH, "content": "cat data/gone.csv"})
    judgement = judge(twice, failed("clean up", stderr="wc: data/gone.csv: No such file or directory\n"))

    (finding,) = sandbox(judgement)
    assert (finding.suggestion or "").endswith("Steps with this path: 1, 2.")


def test_other_failures_say_nothing_of_files() -> None:
    made = (OutputFile(name="data/cleaned.csv", content=b"a,b\n"),)
    judgement = judge(payload(SQL), failed("load", record=sql_failure("no such table: x")), outputs=made)
    assert "made before" not in (sandbox(judgement)[0].context or "")
