"""The YAML form of a Fifth report, made from the daemon's documents."""

from __future__ import annotations

import json

import pytest
import yaml

from assayd.errors import RequestError
from assayd_client.cli.kinds import get_form_printer
from assayd_fifth.forms import format_yaml, print_yaml

FINDING = {
    "rule": "forbidden.concatenation",
    "category": "forbidden_pattern",
    "severity": "error",
    "message": "'s+' corrupts memory.",
    "line": 2,
    "column": 3,
    "end_line": None,
    "snippet": "  s+ ;",
    "suggestion": "Build it:\nstr-reset\nstr$",
    "layer": "static",
}
WARNING = FINDING | {
    "rule": "structure.loop",
    "category": "potential_stack_imbalance",
    "severity": "warning",
    "suggestion": None,
}
SUBMISSION = {"kind": "fifth", "payload": {"code": ": f ( -- )\n  cr ;\n"}}


def attempt(verdict: str, findings: list[object], **report: object) -> dict[str, object]:
    plain = {"findings": findings, "fix_hints": [], "confidence": None, "feedback": None}
    return {"verdict": verdict, "report": plain | report, "error": None}


def written(document: dict[str, object], *, ascii_only: bool = False) -> str:
    return format_yaml(document, SUBMISSION, ascii_only=ascii_only)


def test_pass_has_the_code_the_notes_and_the_confidence() -> None:
    feedback = {"notes": ["The program uses nothing forbidden"]}
    text = written(attempt("validated", [WARNING], confidence=0.9, feedback=feedback))

    result = yaml.safe_load(text)["validation_result"]
    assert list(result) == ["status", "code", "notes", "warnings", "confidence"]
    assert result["status"] == "PASS"
    assert result["code"] == SUBMISSION["payload"]["code"]  # type: ignore[index]
    assert result["confidence"] == 0.9
    assert "  code: |" in text.splitlines()


def test_failure_has_errors_warnings_and_what_another_try_needs() -> None:
    edit = {"start_line": 2, "end_line": 2, "replacement": "x"}
    hint = {"rule": FINDING["rule"], "line": 2, "message": FINDING["message"], "edit": edit}
    feedback = {
        "add_emphasis": ["No s+"],
        "expand_sections": ["buffer_system"],
        "lens_warnings": ["Shows s+"],
        "priority_fixes": ["require not include", "Buffer pattern not s+"],
    }
    document = attempt("failed", [FINDING, WARNING], fix_hints=[hint], feedback=feedback)

    result = yaml.safe_load(written(document))["validation_result"]

    assert result["status"] == "FAIL"
    assert result["errors"] == [
        {
            "type": "forbidden_pattern",
            "pattern": "s+",
            "line": 2,
            "column": 3,
            "code_snippet": "  s+ ;",
            "explanation": "'s+' corrupts memory.",
            "fix_suggestion": "Build it:\nstr-reset\nstr$",
            "edit": edit,
        }
    ]
    assert result["warnings"][0]["word"] == "s+"
    assert result["retry_context"] == {
        "add_emphasis": ["No s+"],
        "condenser_feedback": {"expand_sections": ["buffer_system"]},
        "lens_feedback": {"warnings": ["Shows s+"]},
        "priority_fixes": {1: "require not include", 2: "Buffer pattern not s+"},
    }


def test_trouble_of_ours_is_no_verdict_on_the_code() -> None:
    error = {"code": "engine.down", "message": "The engine is down."}
    document = {"verdict": "error", "report": None, "error": error}
    assert yaml.safe_load(written(document))["validation_result"] == {"status": "ERROR", "error": error}


def test_terminal_gets_nothing_that_acts_on_it() -> None:
    hostile = FINDING | {"snippet": "\x1b[2J\u202e s+", "column": None}
    text = written(attempt("failed", [hostile]), ascii_only=True)
    assert text.isascii()
    assert "\x1b" not in text
    assert yaml.safe_load(text)["validation_result"]["errors"][0]["code_snippet"] == hostile["snippet"]


def test_other_kinds_have_no_such_form() -> None:
    assert get_form_printer("fifth", "yaml") is print_yaml
    with pytest.raises(RequestError, match="--json"):
        get_form_printer("extractor", "yaml")


def test_option_is_refused_before_anything_is_submitted(assay, service, tmp_path, capsys) -> None:
    file = tmp_path / "extractor.py"
    file.write_text("x")
    assert assay("validate", "extractor", str(file), "--yaml") == 2
    assert service.submissions == {}
    assert "--yaml" in capsys.readouterr().err


def test_json_and_yaml_say_the_same(assay, service, tmp_path, capsys) -> None:
    file = tmp_path / "f.fs"
    file.write_text(": f ( -- ) cr ;\n")
    service.outcome = "broken"
    from assayd_fifth.validator import validator

    service.kinds = {"fifth": validator}
    submitted = {"kind": "fifth", "payload": {"code": file.read_text()}}
    service.files["submission_1.json"] = json.dumps(submitted).encode()
    assert assay("validate", "fifth", str(file), "--yaml") == 3
    shown = yaml.safe_load(capsys.readouterr().out)["validation_result"]
    assert shown["status"] == "ERROR"
    assert json.dumps(shown["error"])
