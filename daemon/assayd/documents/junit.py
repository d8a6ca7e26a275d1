"""Converts a report to JUnit XML for CI servers."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from assayd.model.report import Case, CaseStatus, Report, StageReport, StageStatus

_ILLEGAL = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 can't represent, even escaped."""


def junit(report: Report) -> bytes:
    """Return a report as JUnit XML: one test case per case, or one per stage if nothing was run."""
    suite = ET.Element("testsuite", name=_replace_illegal(f"{report.kind} {report.attempt_id}"))
    if report.cases:
        for case in report.cases:
            _add_case(suite, report.kind, case)
    else:
        for stage in report.stages:
            _add_stage(suite, report.kind, stage)
    tests = suite.findall("testcase")
    suite.set("tests", str(len(tests)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    suite.set("time", f"{sum(float(test.get('time', '0')) for test in tests):.6f}")
    if report.validated_at is not None:
        suite.set("timestamp", report.validated_at.isoformat(timespec="seconds"))
    text: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text


def _add_case(suite: ET.Element, kind: str, case: Case) -> None:
    test = _add_test(suite, kind, case.name, case.duration_s)
    detail = case.traceback or case.message or ""
    match case.status:
        case CaseStatus.FAILED:
            _add_outcome(test, "failure", case.error_type or "failed", case.message or "", detail)
        case CaseStatus.ERROR:
            _add_outcome(test, "error", case.cause or "error", case.message or "", detail)
        case CaseStatus.SKIPPED:
            ET.SubElement(test, "skipped")
        case CaseStatus.PASSED:
            pass
    for name, text in (("system-out", case.stdout), ("system-err", case.stderr)):
        if text:
            ET.SubElement(test, name).text = _replace_illegal(text)


def _add_stage(suite: ET.Element, kind: str, stage: StageReport) -> None:
    test = _add_test(suite, kind, stage.name, stage.duration_s)
    lines = [f"line {finding.line}: {_indent_lines(finding.message)}" for finding in stage.findings]
    if stage.status is StageStatus.SKIPPED:
        ET.SubElement(test, "skipped")
    elif stage.status in {StageStatus.FAILED, StageStatus.ERROR}:
        tag = "failure" if stage.status is StageStatus.FAILED else "error"
        kind_of = stage.findings[0].rule if stage.findings else stage.status
        _add_outcome(test, tag, kind_of, lines[0] if lines else "", "\n".join(lines))


def _add_test(suite: ET.Element, kind: str, name: str, duration_s: float) -> ET.Element:
    return ET.SubElement(
        suite,
        "testcase",
        classname=_replace_illegal(kind),
        name=_replace_illegal(name),
        time=f"{duration_s:.6f}",
    )


def _add_outcome(test: ET.Element, tag: str, kind: str, message: str, detail: str) -> None:
    ET.SubElement(
        test, tag, type=_replace_illegal(kind), message=_replace_illegal(message)
    ).text = _replace_illegal(detail)


def _indent_lines(text: str) -> str:
    """Indent all lines except the first, so that guest text can't imitate lines of the report."""
    return text.replace("\n", "\n    ")


def _replace_illegal(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)
