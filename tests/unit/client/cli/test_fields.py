"""Single fields of a document."""

from __future__ import annotations

import json

import pytest

from assayd.errors import RequestError
from assayd_client.cli.validate import select_fields

DOCUMENT = {
    "verdict": "failed",
    "report": {"status": "FAILED", "findings": [{"rule": "a", "line": 1}, {"rule": "b", "line": 2}]},
    "execution": None,
}


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ("verdict", {"verdict": "failed"}),
        ("verdict, report.status", {"verdict": "failed", "report": {"status": "FAILED"}}),
        ("report.findings.rule", {"report": {"findings": [{"rule": "a"}, {"rule": "b"}]}}),
        (
            "report.findings.rule,report.findings.line,report.status",
            {
                "report": {
                    "findings": [{"rule": "a", "line": 1}, {"rule": "b", "line": 2}],
                    "status": "FAILED",
                }
            },
        ),
        ("execution.cause", {"execution": None}),
        ("report,report.status", {"report": DOCUMENT["report"]}),
    ],
)
def test_named_fields_stand_where_they_stood(fields: str, found: dict[str, object]) -> None:
    before = json.dumps(DOCUMENT)
    assert select_fields(DOCUMENT, fields) == found
    assert json.dumps(DOCUMENT) == before


@pytest.mark.parametrize("fields", ["verdit", "report.stati", "verdict.x", "", "verdict,"])
def test_field_that_there_is_not_is_refused_by_name(fields: str) -> None:
    with pytest.raises(RequestError, match="doesn't exist; "):
        select_fields(DOCUMENT, fields)


def test_fields_of_an_attempt_are_printed_as_json(assay, finished, capsys) -> None:
    assert assay("show", "last", "--fields", "verdict,report.status") == 0
    assert json.loads(capsys.readouterr().out) == {"verdict": "validated", "report": {"status": "VALIDATED"}}
