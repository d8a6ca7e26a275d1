"""The kind `fifth` in a real daemon, with and without a container."""

from __future__ import annotations

import httpx
import pytest
import yaml

from assayd_client import Document, PlainClient
from support.daemons.daemon_process import DaemonProcess

pytestmark = pytest.mark.engine

SEVERAL = 'include str.fs\n\n: greet name\n  name s" , " s+ ;\n'


def validated(client: PlainClient, code: str, **payload: object) -> Document:
    return client.submit({"kind": "fifth", "payload": {"code": code, **payload}}, wait_s=60)


def rules(attempt: Document) -> list[str]:
    return [finding["rule"] for finding in attempt["report"]["findings"]]


def test_pass_without_a_run_is_a_finished_report_with_confidence(client: PlainClient) -> None:
    attempt = validated(client, ": double ( n -- n ) 2 * ;\n: limit 5 ;\n")

    assert (attempt["state"], attempt["verdict"]) == ("finished", "validated")
    assert (attempt["execution"], attempt["warm"], attempt["cause"]) == (None, None, None)
    report = attempt["report"]
    assert (report["stage_reached"], report["runtime_results"]) == ("complete", None)
    assert report["confidence"] == 0.9
    assert set(report["feedback"]) == {
        "notes",
        "add_emphasis",
        "expand_sections",
        "lens_warnings",
        "priority_fixes",
    }
    assert report["retry_context"] is None
    assert [stage["status"] for stage in report["stages"]] == [
        "passed",
        "warned",
        "passed",
        "passed",
        "skipped",
    ]
    names = {artifact["name"].partition("_")[0] for artifact in attempt["artifacts"]}
    assert {"stdout", "stderr", "execution", "validation", "submission"} <= names


def test_failure_has_all_findings_and_what_another_try_needs(client: PlainClient) -> None:
    report = validated(client, SEVERAL, model_source="gpt-4")["report"]

    assert (report["status"], report["stage_reached"], report["confidence"]) == ("FAILED", "forbidden", None)
    assert {f["rule"].partition(".")[0] for f in report["findings"]} == {
        "forbidden",
        "required",
        "vocabulary",
    }
    assert report["feedback"]["priority_fixes"][0] == "require not include"
    assert "'include'" in report["retry_context"]
    assert "stack comment" in report["retry_context"]
    edits = [hint["edit"] for hint in report["fix_hints"] if hint["edit"]]
    assert {"start_line": 1, "end_line": 1, "replacement": "require str.fs"} in edits


def test_program_runs_with_files_that_it_brings(client: PlainClient) -> None:
    own = ": twice ( n -- n ) 2 * ;\n"
    note = ': note ( -- fid ) s" /tmp/x" w/o create-file throw ;\n'
    go = ": go ( -- ) 21 twice dup abs <# #s swap sign #> type ;\n"
    code = f"require own.fs\n{note}{go}go note close-file throw\n"
    attempt = validated(client, code, files={"own.fs": own}, execute=True)

    assert attempt["verdict"] == "validated", attempt["report"]["findings"]
    assert attempt["execution"]["stdout"] == "42"
    [case] = attempt["report"]["runtime_results"]["cases"]
    assert (case["name"], case["status"], case["exit_code"]) == ("program", "passed", 0)


@pytest.mark.parametrize(
    ("code", "rule", "line"),
    [
        (": f ( xt -- ) execute drop ;\n\n' noop f\n", "fifth.stack_underflow", 3),
        (': f ( -- )\n  s" none" r/o open-file throw drop ;\nf\n', "fifth.uncaught_throw", 3),
        (': f ( -- ) true abort" no luck" ;\nf\n', "fifth.aborted", 2),
    ],
    ids=["underflow", "throw", "abort"],
)
def test_what_goes_wrong_in_gforth_is_told_with_its_line(
    client: PlainClient, code: str, rule: str, line: int
) -> None:
    attempt = validated(client, code, execute=True)

    assert attempt["verdict"] == "failed"
    found = [f for f in attempt["report"]["findings"] if f["severity"] == "error"]
    assert [(f["rule"], f["line"], f["layer"]) for f in found] == [(rule, line, "runtime")]
    assert attempt["report"]["feedback"]["expand_sections"] or rule == "fifth.aborted"


def test_each_case_is_run_and_what_it_prints_is_compared(client: PlainClient) -> None:
    code = ": next ( -- ) key emit ;\nnext next cr\n"
    cases = [
        {"name": "lines", "stdin": "ab", "expected": "ab\n"},
        {"name": "other", "stdin": "cd", "expected": "cc", "compare": "tokens"},
    ]
    attempt = validated(client, code, cases=cases)

    found = attempt["report"]["runtime_results"]["cases"]
    assert [(case["name"], case["status"], case["stdout"]) for case in found] == [
        ("lines", "passed", "ab\n"),
        ("other", "failed", "cd\n"),
    ], attempt["report"]["findings"]
    assert rules(attempt) == ["case.differs"]


def test_endless_program_ends_at_its_deadline(client: PlainClient) -> None:
    submission: Document = {
        "kind": "fifth",
        "payload": {"code": ": f ( -- ) begin again ;\nf\n", "execute": True},
        "overrides": {"resources": {"unit_timeout_s": 1}},
    }
    attempt = client.submit(submission, wait_s=60)
    assert (attempt["verdict"], attempt["cause"]) == ("failed", "timeout")
    assert rules(attempt) == ["sandbox.timeout"]


def test_missing_library_leaves_the_static_result(client: PlainClient) -> None:
    code = 'require ~/fifth/lib/html.fs\nhtml>stdout s" Hi" h1.\n'
    attempt = validated(client, code, execute=True)

    assert (attempt["verdict"], rules(attempt)) == ("validated", ["fifth.library_unavailable"])
    assert attempt["report"]["confidence"] == 0.9


def test_kind_is_described_with_its_rules_and_stages(http: httpx.Client) -> None:
    kind = http.get("/v1/kinds/fifth").json()
    assert [stage if isinstance(stage, str) else stage["name"] for stage in kind["stages"]] == [
        "forbidden",
        "required",
        "structure",
        "vocabulary",
        "sandbox",
    ]
    assert {"forbidden.raw_user_data", "fifth.undefined_word"} <= {rule["id"] for rule in kind["rules"]}


def test_yaml_of_the_command_line_is_the_form_of_prompting_tools(daemon: DaemonProcess) -> None:
    file = daemon.home / "several.fs"
    file.write_text(SEVERAL)

    done = daemon.assay("validate", "fifth", file, "--yaml")

    assert done.returncode == 1, done.stderr
    result = yaml.safe_load(done.stdout)["validation_result"]
    assert result["status"] == "FAIL"
    assert {"type": "forbidden_pattern", "pattern": "include", "line": 1}.items() <= result["errors"][
        0
    ].items()
    assert result["retry_context"]["priority_fixes"][1] == "require not include"
