"""Runs of approved pipelines: the submission of each, and its row in the history."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from assayd.errors import RequestError
from assayd.model.records import LibraryEntry
from assayd_pipeline.facts import DataFacts, Facts
from assayd_pipeline.payload import Step, compute_steps_digest
from assayd_pipeline.routes import (
    JudgedReport,
    PipelineRunBody,
    build_expected_facts,
    build_submission,
    get_approved_steps_digest,
)

STEP = {"name": "a", "type": "sql", "content": "SELECT 1"}


def entry(**payload: Any) -> LibraryEntry:
    document = {"policy": "analysis", "overrides": {}, "payload": {"steps": [STEP], **payload}}
    return LibraryEntry(
        uid=1,
        name="daily",
        version=3,
        kind="pipeline",
        attempt_id="01A",
        digest="",
        intent=None,
        chain=(),
        approved_by=1,
        approved_at=datetime(2026, 5, 4, tzinfo=UTC),
        bundle=None,
        document=json.dumps(document).encode(),
    )


def wanted(**fields: Any) -> PipelineRunBody:
    return PipelineRunBody.model_validate({"name": "daily", **fields})


def facts(rows: int, **inputs: Facts) -> DataFacts:
    return DataFacts(inputs=inputs, tables={"t": Facts(rows=rows, columns=("a",), types=("TEXT",))})


def test_rows_are_those_of_the_last_run_and_columns_those_of_the_approval() -> None:
    last = DataFacts(tables={"t": Facts(rows=90, columns=("b",), types=("REAL",))})

    found = build_expected_facts(facts(10), last, wanted())

    assert found["tables"]["t"] == {"rows": 90, "columns": ["a"], "types": ["TEXT"]}
    assert found["range"] == {"least": 0.5, "most": 2.0}


def test_entry_without_facts_is_compared_with_its_last_run_or_refused() -> None:
    assert build_expected_facts(None, facts(7), wanted())["tables"]["t"]["rows"] == 7
    with pytest.raises(RequestError, match=r"daily has no baseline.*replay its attempt") as refused:
        build_expected_facts(None, None, wanted())
    assert refused.value.code == "pipeline.no_baseline"


def test_submission_has_the_approved_steps_and_policy_and_the_new_data() -> None:
    body = wanted(
        files={"data/a.csv": "a\n1\n"}, labels={"pipeline": "other", "team": "x"}, webhook="https://h/x"
    )

    made = build_submission(entry(files={"data/a.csv": "old"}), body, {"strict": True})

    assert made == {
        "kind": "pipeline",
        "policy": "analysis",
        "overrides": {},
        "labels": {"pipeline": "daily", "pipeline_version": "3", "team": "x"},
        "payload": {
            "steps": [STEP],
            "files": {"data/a.csv": "a\n1\n"},
            "database": None,
            "expects": {"strict": True},
        },
        "webhook": "https://h/x",
    }


def test_approved_schema_is_used_again_and_an_approved_database_is_not() -> None:
    schema = {"schema_sql": "CREATE TABLE t (a)"}
    assert build_submission(entry(database=schema), wanted(), {})["payload"]["database"] == schema
    with pytest.raises(RequestError, match="was approved with a database file; pass one") as refused:
        build_submission(entry(database={"base64": "AAAA"}), wanted(), {})
    assert refused.value.field == "database"


def report(*rules: str, data: bool = True) -> bytes:
    findings = [{"rule": rule, "severity": "warning", "message": rule} for rule in rules]
    feedback = {"data": facts(3).model_dump(mode="json")} if data else None
    return json.dumps({"feedback": feedback, "findings": findings}).encode()


@pytest.mark.parametrize(
    ("document", "is_clean"),
    [
        (report(), True),
        (report("quality.no_rows"), True),
        (report("data.rows"), False),
        (report(data=False), False),
        (b"null", False),
    ],
)
def test_run_is_a_baseline_only_without_findings_about_data(document: bytes, is_clean: bool) -> None:
    assert JudgedReport(document).is_clean is is_clean


def test_history_shows_findings_about_data_and_errors() -> None:
    assert [each.rule for each in JudgedReport(report("data.rows", "quality.no_rows")).shown()] == [
        "data.rows"
    ]


def test_digest_of_steps_is_that_of_the_steps_as_they_run() -> None:
    written = entry(steps=[{**STEP, "content": "\ufeffSELECT 1\r\n"}])
    assert get_approved_steps_digest(written) == compute_steps_digest(
        [Step.model_validate({**STEP, "content": "SELECT 1\n"})]
    )
    assert get_approved_steps_digest(written) != get_approved_steps_digest(
        entry(steps=[{**STEP, "type": "bash"}])
    )
