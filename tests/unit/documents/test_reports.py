"""Results of cases in the order of the code."""

from __future__ import annotations

import pytest

from assayd.documents.reports import RESULT_TEXT_BYTES, report_document
from assayd.model.report import Case, CaseStatus, Report, Verdict


def text_of(result: object) -> str | None:
    case = Case(name="x", status=CaseStatus.PASSED, result=result)  # type: ignore[arg-type]
    report = Report(
        attempt_id="a",
        kind="k",
        verdict=Verdict.VALIDATED,
        stage_reached="complete",
        stages=(),
        cases=(case,),
    )
    results = report_document(report).runtime_results
    assert results is not None
    return results.cases[0].result_text


def test_text_of_a_result_keeps_the_order_of_its_fields() -> None:
    assert text_of({"b": 1, "a": [{"d": 1, "c": "\ud800"}]}) == '{"b":1,"a":[{"d":1,"c":"?"}]}'


@pytest.mark.parametrize(
    "result", [None, 1, "x", [], {"a": 1, "b": 2}, {"b": "x" * RESULT_TEXT_BYTES, "a": 1}]
)
def test_result_that_sorting_leaves_alone_or_that_is_long_has_none(result: object) -> None:
    assert text_of(result) is None
