"""Reports of one attempt in other formats."""

import json
from xml.etree import ElementTree as ET

import pytest

from assayd.findings.source_text import get_snippet
from assayd_client.cli.report import SubmissionOrigin
from assayd_client.cli.reports import build_sarif
from support.daemons.fake_service import GOLDEN

TEXT = b"Sure:\n\n" + b"\n" * 11 + b"    quarter = int(part)\n"


def failed() -> dict:
    return json.loads((GOLDEN / "failed_at_run.json").read_text())


def with_edit(attempt: dict) -> dict:
    attempt["report"]["fix_hints"][0]["edit"] = {
        "start_line": 12,
        "end_line": 12,
        "replacement": "    quarter = int(part[1:])",
    }
    return attempt


@pytest.fixture
def validate(assay, tmp_path):
    file = tmp_path / "extractor.py"
    file.write_text("def extract(path: str) -> dict:\n    return {}\n")
    return lambda *more: assay("validate", "extractor", str(file), "--sample-path", "/a", *more)


def test_finding_stands_at_its_line_of_the_file_with_its_certain_edit() -> None:
    origin = SubmissionOrigin(paths={"x.py": "src/x.py"}, texts={"x.py": TEXT})

    (result,) = build_sarif(with_edit(failed()), origin, {})["runs"][0]["results"]

    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "src/x.py"}, "region": {"startLine": 14}}
    (change,) = result["fixes"][0]["artifactChanges"]
    region = {"startLine": 14, "startColumn": 1, "endLine": 15, "endColumn": 1}
    assert change["replacements"] == [
        {"deletedRegion": region, "insertedContent": {"text": "    quarter = int(part[1:])\n"}}
    ]


def test_finding_on_a_long_line_has_its_region() -> None:
    attempt, line = failed(), "x = '" + "y" * 300 + "' + name"
    attempt["report"]["findings"][0] |= {"line": 1, "column": 310, "snippet": get_snippet(line, 1)}
    origin = SubmissionOrigin(paths={"x.py": "src/x.py"}, texts={"x.py": line.encode()})

    (result,) = build_sarif(attempt, origin, {})["runs"][0]["results"]

    region = result["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 1, "startColumn": 310}


def test_finding_whose_line_cannot_be_told_has_the_file_and_no_fix() -> None:
    origin = SubmissionOrigin(paths={"x.py": "src/x.py"}, texts={"x.py": b"something else\n"})

    (result,) = build_sarif(with_edit(failed()), origin, {})["runs"][0]["results"]

    assert result["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": "src/x.py"}}}]
    assert "fixes" not in result


@pytest.mark.parametrize(("outcome", "code"), [("validated", 0), ("refused", 1), ("broken", 3)])
def test_sarif_is_all_that_is_printed_and_the_exit_code_is_the_verdicts(
    validate, service, capsys, outcome, code
) -> None:
    service.outcome = outcome

    assert validate("--sarif", "-") == code
    run = json.loads(capsys.readouterr().out)["runs"][0]
    assert run["invocations"][0]["executionSuccessful"] == (outcome != "broken")
    assert run["properties"]["verdict"] in {"validated", "failed", "error"}


@pytest.mark.parametrize(
    ("outcome", "tag"), [("validated", None), ("refused", "failure"), ("broken", "error")]
)
def test_junit_is_written_beside_the_report(validate, service, capsys, tmp_path, outcome, tag) -> None:
    service.outcome = outcome

    validate("--junit", str(tmp_path / "out.xml"))

    suite = ET.fromstring((tmp_path / "out.xml").read_text())
    assert [child.tag for child in suite.find("testcase")] == ([] if tag is None else [tag])
    assert "Validation: " in capsys.readouterr().out


def test_junit_of_the_bundle_is_taken_where_there_is_one(validate, service, capsys) -> None:
    service.files = {"junit_1.xml": b"<testsuite/>\n"}

    assert validate("--junit", "-") == 0
    assert capsys.readouterr().out == "<testsuite/>\n"


def test_two_reports_on_one_output_are_refused(validate, capsys) -> None:
    assert validate("--junit", "-", "--sarif", "-") == 2
    assert "--sarif - and --junit - both write" in capsys.readouterr().err


def test_report_that_cannot_be_written_is_said(validate, capsys, tmp_path) -> None:
    assert validate("--sarif", str(tmp_path / "none/out.sarif")) == 2
    assert "No such file or directory" in capsys.readouterr().err
