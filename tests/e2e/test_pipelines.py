"""Pipelines on the command line: submitted, shown, replayed, applied."""

from __future__ import annotations

import base64
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from assayd_client import ClientError, Document, PlainClient
from support.daemons.daemon_process import ROOT, DaemonProcess

pytestmark = pytest.mark.engine

IMPORT = ROOT / "examples/pipeline/csv_import"


def step(kind: str, content: str, name: str = "a step") -> Document:
    return {"name": name, "type": kind, "content": content}


def pipeline(*steps: Document, **more: object) -> Document:
    return {"kind": "pipeline", "payload": {"steps": list(steps), **more}}


def rules(attempt: Document) -> list[str]:
    return [finding["rule"] for finding in attempt["report"]["findings"]]


@pytest.mark.each_engine
def test_import_runs_its_steps_and_leaves_rows_files_and_a_database(daemon: DaemonProcess) -> None:
    done = daemon.assay("validate", "pipeline", IMPORT, "--json")

    assert done.returncode == 0, done.stderr
    attempt = json.loads(done.stdout)
    names = {artifact["name"] for artifact in attempt["artifacts"]}
    assert {"files/data/rejected.csv", "files/database.sqlite"} <= names
    cases = attempt["report"]["runtime_results"]["cases"]
    assert cases[2]["stdout"] == "region\tsales\ttotal\neast\t2\t219.99\nnorth\t1\t120.5\nsouth\t1\t80.0\n"

    shown = json.loads(daemon.assay("show", attempt["id"], "--steps", "--json").stdout)
    fields = {"step_id", "pipeline_id", "run_time", "is_successful", "stdout", "stderr", "exit_code"}
    assert all(fields | {"execution_time_ms"} <= row.keys() for row in shown)
    assert [(row["name"], row["is_successful"], row["exit_code"]) for row in shown] == [
        ("01_clean", True, 0),
        ("02_import", True, 0),
        ("03_report", True, 0),
    ]
    assert shown[0]["stdout"] == "4 of 6 lines kept\n"
    assert shown[0]["run_time"] < shown[1]["run_time"] < shown[2]["run_time"]


def test_failed_pipeline_is_repaired_by_a_changed_step_and_run_again_as_stored(client: PlainClient) -> None:
    broken = [step("bash", "echo ready", "first"), step("sql", "SELECT * FROM gone", "second")]
    first = client.submit(pipeline(*broken), wait_s=60)
    stored = client.records("pipelines", first["id"])
    assert (first["verdict"], stored["status"]) == ("failed", "failed")
    assert [row["is_successful"] for row in stored["attempts"][0]["steps"]] == [True, False]

    fixed = [broken[0], step("sql", "SELECT 1", "second")]
    repair = {**pipeline(*fixed, pipeline_id=first["id"]), "parent_id": first["id"]}
    assert client.submit(repair, wait_s=60)["verdict"] == "validated"
    stored = client.records("pipelines", first["id"])
    assert stored["status"] == "repaired"
    assert [one["content"] for one in stored["steps"]] == ["echo ready", "SELECT 1"]

    again = client.submit({"kind": "pipeline", "payload": {"pipeline_id": first["id"]}}, wait_s=60)
    assert again["verdict"] == "validated"
    stored = client.records("pipelines", first["id"])
    assert stored["status"] == "success"
    assert stored["attempts"][0]["attempt_id"] == again["id"]
    (found,) = client.records("pipelines", attempt=again["id"])["pipelines"]
    assert found["id"] == first["id"]


def test_lines_of_a_batch_run_a_stored_pipeline_and_are_known_after_it_has_changed(
    daemon: DaemonProcess, client: PlainClient, tmp_path: Path
) -> None:
    first = client.submit(pipeline(step("bash", "echo one")), wait_s=60)
    line = {"kind": "pipeline", "payload": {"pipeline_id": first["id"]}}
    lines = tmp_path / "lines.jsonl"
    lines.write_text(f"{json.dumps(line)}\n" * 2)
    assert daemon.assay("batch", "run", lines, "--name", "stored").returncode == 0

    other = pipeline(step("bash", "echo two"), pipeline_id=first["id"])
    changed = client.submit(other, wait_s=60)
    assert daemon.assay("batch", "resume", "stored", lines).returncode == 0
    shown = client.records("pipelines", first["id"])
    assert len(shown["attempts"]) == 4
    assert [one["content"] for one in shown["steps"]] == ["echo two"]

    replayed = daemon.assay("replay", shown["attempts"][-2]["attempt_id"])
    assert replayed.returncode == 0, replayed.stdout
    assert [one["content"] for one in client.records("pipelines", first["id"])["steps"]] == ["echo one"]
    assert changed["verdict"] == "validated"


def test_result_is_committed_once_and_refused_when_the_database_has_moved_on(
    daemon: DaemonProcess, client: PlainClient, tmp_path: Path
) -> None:
    real = tmp_path / "shop.db"
    with closing(sqlite3.connect(real)) as connection:
        connection.execute("CREATE TABLE t (a)")
    given = {"base64": base64.b64encode(real.read_bytes()).decode()}
    added = pipeline(step("sql", "INSERT INTO t VALUES (1)"), step("bash", "echo x > data/x"), database=given)
    attempt = client.submit(added, wait_s=60)
    folder = tmp_path / "files"
    folder.mkdir()

    commit = ("pipeline", "commit", attempt["id"], "--database", real, "--directory", folder)
    done = daemon.assay(*commit)

    assert done.returncode == 0, done.stderr
    assert (folder / "data/x").read_text() == "x\n"
    with closing(sqlite3.connect(real)) as connection:
        assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]
        connection.execute("INSERT INTO t VALUES (2)")
        connection.commit()
    moved_on = real.read_bytes()
    refused = daemon.assay(*commit)
    assert (refused.returncode, real.read_bytes()) == (2, moved_on)
    assert "nothing was changed" in refused.stderr

    back = ("pipeline", "rollback", attempt["id"], "--database", real, "--directory", folder)
    kept = daemon.assay(*back)
    assert (kept.returncode, real.read_bytes()) == (2, moved_on)
    assert "table t: 0 to 2 rows" in kept.stderr
    taken_back = daemon.assay(*back, "--force")
    assert taken_back.returncode == 0, taken_back.stderr
    assert not (folder / "data/x").exists()
    with closing(sqlite3.connect(real)) as connection:
        assert connection.execute("SELECT a FROM t").fetchall() == []


@pytest.mark.parametrize(
    ("submission", "words"),
    [
        (pipeline(step("bash", "rm x")), "failed, not validated"),
        (pipeline(step("sql", "SELECT 1"), database={"schema_sql": "CREATE TABLE t (a)"}), "ran on a schema"),
    ],
    ids=["failed", "schema"],
)
def test_only_a_validated_result_on_the_database_itself_is_committed(
    daemon: DaemonProcess, client: PlainClient, tmp_path: Path, submission: Document, words: str
) -> None:
    attempt = client.submit(submission, wait_s=60)
    refused = daemon.assay("pipeline", "commit", attempt["id"], "--database", tmp_path / "x.db")

    assert refused.returncode == 2
    assert words in refused.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("payload", "status", "field"),
    [
        ({"steps": [step("bash", "echo")] * 1000}, 413, "payload.steps"),
        ({"steps": [step("bash", " ")]}, 422, "payload.steps.0.content"),
        ({"steps": [step("bash", "echo", "../x")]}, 422, "payload.steps.0.name"),
        ({"steps": [step("sql", "x")], "database": {"base64": "anVuaw=="}}, 422, "payload.database.base64"),
        ({"pipeline_id": "0" * 26}, 422, "payload.pipeline_id"),
        ({}, 422, "payload"),
    ],
)
def test_what_is_no_pipeline_is_refused_at_the_door(
    client: PlainClient, payload: dict[str, object], status: int, field: str
) -> None:
    with pytest.raises(ClientError) as caught:
        client.submit({"kind": "pipeline", "payload": payload})
    assert (caught.value.status, caught.value.field) == (status, field)


def test_schema_that_does_not_parse_is_told_with_its_place(client: PlainClient) -> None:
    schema = "CREATE TABLE t (a);\nCREATE TABEL u (b);"
    attempt = client.submit(pipeline(step("sql", "SELECT 1"), database={"schema_sql": schema}), wait_s=60)

    (finding,) = attempt["report"]["findings"]
    assert (finding["rule"], finding["line"], finding["column"]) == ("database.schema", 2, 8)
    assert [case["status"] for case in attempt["report"]["runtime_results"]["cases"]] == ["skipped"]


def test_database_cut_short_is_told_before_any_step_runs(client: PlainClient, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.executemany("INSERT INTO t VALUES (?)", [("x" * 100,)] * 500)
        connection.commit()
    given = {"base64": base64.b64encode(path.read_bytes()[:8192]).decode()}

    attempt = client.submit(pipeline(step("sql", "SELECT 1"), database=given), wait_s=60)

    assert rules(attempt) == ["database.unusable"]


def test_sql_that_never_ends_is_a_timeout_with_its_output_kept(client: PlainClient) -> None:
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    submission = pipeline(step("bash", "echo before"), step("sql", f"SELECT 'kept'; {endless}"))
    submission["overrides"] = {"resources": {"unit_timeout_s": 1}}
    attempt = client.submit(submission, wait_s=60)

    assert (attempt["cause"], rules(attempt)) == ("timeout", ["sandbox.timeout"])
    assert attempt["execution"]["stdout"] == "before\n'kept'\nkept\n"
    assert client.records("pipelines", attempt["id"])["attempts"][0]["steps"][1]["exit_code"] is None


def test_pipelines_are_listed_by_status(daemon: DaemonProcess, client: PlainClient) -> None:
    attempt = client.submit(pipeline(step("bash", "rm x")), wait_s=60)

    listed = daemon.assay("pipeline", "list", "--status", "failed").stdout.splitlines()

    assert attempt["id"] in {line.split("\t")[0] for line in listed}
    assert "1. a step (bash)" in daemon.assay("pipeline", "show", attempt["id"]).stdout
