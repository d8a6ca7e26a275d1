from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from assayd.documents import junit
from assayd.model.finding import Finding
from assayd.model.report import Case, CaseStatus, Report, StageReport, StageStatus, Verdict
from assayd.model.run import Cause


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
