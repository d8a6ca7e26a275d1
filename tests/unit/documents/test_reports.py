"""Results of cases in the order of the code."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

from assayd.documents import junit
from assayd.documents.reports import (
    MAX_CELL_CHARS,
    MAX_RESULT_TEXT_BYTES,
    MAX_TABLES,
    build_report_document,
    render_preview,
)
from assayd.model.finding import Finding
from assayd.model.report import Case, CaseStatus, Report, StageReport, StageStatus, Verdict
from assayd.model.run import Cause


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
    results = build_report_document(report).runtime_results
    assert results is not None
    return results.cases[0].result_text


def test_text_of_a_result_keeps_the_order_of_its_fields() -> None:
    assert text_of({"b": 1, "a": [{"d": 1, "c": "\ud800"}]}) == '{"b":1,"a":[{"d":1,"c":"?"}]}'


@pytest.mark.parametrize(
    "result", [None, 1, "x", [], {"a": 1, "b": 2}, {"b": "x" * MAX_RESULT_TEXT_BYTES, "a": 1}]
)
def test_result_that_sorting_leaves_alone_or_that_is_long_has_none(result: object) -> None:
    assert text_of(result) is None


def frame(rows: int, columns: list[object], **more: object) -> dict[str, object]:
    held = {"columns": columns, "index": list(range(rows)), "rows": [[1] * len(columns)] * rows, **more}
    return {"$py": "dataframe", "value": held, "type": f"{rows} x {len(columns)}"}


def test_frame_has_size_types_and_first_rows() -> None:
    regions = {
        "columns": ["region", "mean"],
        "dtypes": ["object", "float64"],
        "index": [["a", 1], ["b", 2]],
        "rows": [["north", 1.5], [None, {"$py": "float", "value": "nan"}]],
    }

    assert render_preview({"$py": "dataframe", "value": regions, "type": "2 x 2"}) == (
        "dataframe, 2 rows × 2 columns\n"
        "        region     mean\n"
        "        object  float64\n"
        "[a, 1]   north      1.5\n"
        "[b, 2]    null      nan"
    )


def test_what_is_left_out_is_counted() -> None:
    shown = render_preview(frame(300, list("abcdefghij")))

    assert shown is not None
    head, *body, left = shown.split("\n")
    assert (head, left) == ("dataframe, 300 rows × 10 columns", "… 295 more rows, 2 more columns")
    assert [len(row.split()) for row in body] == [8, 9, 9, 9, 9, 9]


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        ({"name": "n", "index": ["x"], "values": [5]}, "series", "series n, 1 value, T\nx  5"),
        ([[1, 20], [3, 4]], "ndarray", "ndarray, 2 × 2, T\n1  20\n3   4"),
        ([[[1], [2]], [[3], [4]]], "ndarray", "ndarray, 2 × 2 × 1, T\n1\n2"),
        ([1.5, 2.5], "ndarray", "ndarray, 2, T\n1.5  2.5"),
        (7, "ndarray", "ndarray, no dimensions, T\n7"),
        ([], "ndarray", "ndarray, 0, T\n"),
    ],
)
def test_series_and_arrays_have_theirs(value: object, kind: str, shown: str) -> None:
    assert render_preview({"$py": kind, "value": value, "type": "T"}) == shown


def test_tables_within_a_result_are_named_by_their_place() -> None:
    one = frame(1, ["a"])
    shown = render_preview({"sums": one, "both": {"$py": "tuple", "value": [one, {"deep": [one]}]}, "n": 3})

    assert shown is not None
    heads = [line.partition(":")[0] for line in shown.split("\n") if "dataframe" in line]
    assert heads == ["sums", "both[0]"]


@pytest.mark.parametrize(
    "result",
    [
        None,
        3,
        "text",
        [],
        {"a": [1, {"b": 2}]},
        {"$py": "dataframe"},
        {"$py": "dataframe", "value": {"columns": 5, "index": [], "rows": []}},
        {"$py": "series", "value": []},
        {"$py": ["dataframe"], "value": {}},
        {"$py": "decimal", "value": "0.1"},
    ],
)
def test_result_without_a_table_has_none(result: object) -> None:
    assert render_preview(result) is None


def test_hostile_table_stays_small_and_in_its_lines() -> None:
    cells = ["x\n" * 10**5, "\u2028\x0b\x1c", [[1] * 10**5] * 10, {"$py": {"$py": 1}}, 10**900, {"a": 1}]
    held = {"columns": cells * 10, "dtypes": [cells], "index": [cells] * 9, "rows": [cells, 5, None] * 3}

    shown = render_preview([{"$py": "dataframe", "value": held, "type": "x"}] * 10)

    assert shown is not None
    assert shown.count("dataframe") == MAX_TABLES
    assert max(map(len, shown.splitlines())) <= (MAX_CELL_CHARS + 2) * 9
    assert len(shown.splitlines()) == MAX_TABLES * 9 + MAX_TABLES - 1


def report(*stages: StageReport, cases: tuple[Case, ...] | None = None) -> Report:
    return Report(
        attempt_id="01A",
        kind="module",
        verdict=Verdict.FAILED,
        stage_reached="sandbox",
        stages=stages,
        cases=cases,
        validated_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )


def test_every_case_is_a_test_with_its_outcome() -> None:
    cases = (
        Case(name="good", status=CaseStatus.PASSED, duration_s=0.5),
        Case(name="bad", status=CaseStatus.FAILED, error_type="ValueError", message="no", traceback="line 1"),
        Case(name="slow", status=CaseStatus.ERROR, cause=Cause.TIMEOUT, message="5 s"),
        Case(name="never", status=CaseStatus.SKIPPED),
    )
    suite = ET.fromstring(junit(report(cases=cases)))
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped", "time")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "0.500000"}
    failure, error = suite.find("testcase/failure"), suite.find("testcase/error")
    assert failure is not None
    assert (failure.get("type"), failure.get("message"), failure.text) == ("ValueError", "no", "line 1")
    assert error is not None
    assert error.get("type") == "timeout"


def test_without_cases_every_stage_is_a_test() -> None:
    finding = Finding(rule="contract.missing", category="contract", message="no adapter", line=3)
    suite = ET.fromstring(
        junit(
            report(
                StageReport(name="syntax", status=StageStatus.PASSED),
                StageReport(name="contract", status=StageStatus.FAILED, findings=(finding,)),
                StageReport(name="sandbox", status=StageStatus.SKIPPED),
            )
        )
    )
    assert [test.get("name") for test in suite] == ["syntax", "contract", "sandbox"]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert (failure.get("type"), failure.get("message")) == ("contract.missing", "line 3: no adapter")


def test_what_xml_cannot_say_is_replaced() -> None:
    hostile = "a\x00b\x1b[31m\ud800\ufffe]]></failure><x>"
    case = Case(name=hostile, status=CaseStatus.FAILED, message=hostile, stdout=hostile, stderr=hostile)
    test = ET.fromstring(junit(report(cases=(case,)))).find("testcase")
    assert test is not None
    assert test.get("name") == "a�b�[31m��]]></failure><x>"
    assert test.findtext("system-out") == test.get("name")
