"""The static stages of the extractor: samples, examples, payload, command line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from assayd.analysis.worker import run_stages
from assayd.errors import RequestError
from assayd.kinds.extractor.command_line import from_files
from assayd.kinds.extractor.validator import ExtractorPayload, validator
from assayd.model.policy import ExecutionPolicy, NetworkMode, NetworkPolicy
from assayd.model.report import StageReport, StageStatus
from assayd.model.submission import Sample
from assayd.policies import PolicySet
from assayd.ports.command_line import STDIN, FileOptions

EXAMPLES = Path(__file__).parents[4] / "examples" / "extractor"
PATHS = ("/data/CLIENT-ABC/2024/Q1/report.csv",)
LISTED = tomllib.loads((EXAMPLES / "examples.toml").read_text())["example"]


def stages(payload: Mapping[str, object], policy: ExecutionPolicy) -> tuple[StageReport, ...]:
    return run_stages(validator, ExtractorPayload.model_validate(payload), policy)


def failed(reports: tuple[StageReport, ...]) -> list[str]:
    return [report.name for report in reports if report.status is StageStatus.FAILED]


@pytest.mark.parametrize("sample", validator.samples, ids=lambda sample: sample.name)
def test_samples_are_decided_where_they_say(sample: Sample, extractor_policy: ExecutionPolicy) -> None:
    reports = stages(sample.payload, extractor_policy)
    found = {finding.rule for report in reports for finding in report.findings}
    assert bool(failed(reports)) is not sample.needs_container
    if not sample.needs_container:
        assert sample.verdict == "failed"
        assert sample.rules <= found


def test_there_is_a_failing_sample_for_every_stage() -> None:
    families = {
        rule.partition(".")[0] for s in validator.samples if s.verdict == "failed" for rule in s.rules
    }
    assert families >= {
        "syntax",
        "import",
        "builtin",
        "attribute",
        "signature",
        "sandbox",
        "result",
        "quality",
    }


@pytest.mark.parametrize("example", LISTED, ids=lambda example: example["file"])
def test_examples_are_decided_as_listed(
    example: Mapping[str, object], extractor_policy: ExecutionPolicy
) -> None:
    name = str(example["file"])
    paths = example["sample_paths"]
    assert isinstance(paths, list)
    files = {name: (EXAMPLES / name).read_bytes()}
    payload = from_files(files, FileOptions(sample_paths=tuple(paths)))
    reports = stages(payload, extractor_policy)
    rules = example.get("rules", [])
    assert isinstance(rules, list)
    static = {rule for rule in rules if rule.partition(".")[0] not in {"sandbox", "result", "quality"}}
    assert static <= {finding.rule for report in reports for finding in report.findings}
    runs = example["verdict"] == "validated" or bool(set(rules) - static)
    assert bool(failed(reports)) is not runs


def test_every_example_file_is_listed() -> None:
    there = {path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".md", ".yaml"}}
    assert there == {example["file"] for example in LISTED}


def test_a_failed_stage_skips_the_ones_after_it(extractor_policy: ExecutionPolicy) -> None:
    reports = stages({"code": "import sys\ndef f(): pass\n", "sample_paths": PATHS}, extractor_policy)
    assert [r.status for r in reports] == [StageStatus.PASSED, StageStatus.FAILED, StageStatus.SKIPPED]


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("", "source.empty"),
        ("x = 1\0", "source.nul_byte"),
        ("x = '\ud800'", "source.not_text"),
        ("#" * (5 * 2**20), "source.too_large"),
        ("x = " + "[" * 10_000 + "]" * 10_000, "syntax.too_deep"),
    ],
)
def test_hostile_text_ends_as_a_finding(code: str, rule: str, extractor_policy: ExecutionPolicy) -> None:
    first, *rest = stages({"code": code, "sample_paths": PATHS}, extractor_policy)
    assert [finding.rule for finding in first.findings] == [rule]
    assert {report.status for report in rest} == {StageStatus.SKIPPED}


def test_rules_are_unique_and_have_titles() -> None:
    ids = [rule.id for rule in validator.rules]
    assert len(ids) == len(set(ids))
    assert all(rule.title for rule in validator.rules)


def test_the_retry_context_names_every_allowed_module(extractor_policy: ExecutionPolicy) -> None:
    [finding] = stages({"code": "import sched", "sample_paths": PATHS}, extractor_policy)[1].findings
    text = validator.retry_context([finding], "security", extractor_policy)
    line = next(line for line in text.splitlines() if line.startswith("- Import only: "))
    named = line.removeprefix("- Import only: ").rstrip(".").split(", ")
    assert set(named) == extractor_policy.imports.allowed
    assert "def extract(path: str) -> dict" in text


def test_the_retry_context_leaves_out_what_is_denied(extractor_policy: ExecutionPolicy) -> None:
    imports = replace(extractor_policy.imports, denied=frozenset({"json"}))
    text = validator.retry_context([], "security", replace(extractor_policy, imports=imports))
    line = next(line for line in text.splitlines() if line.startswith("- Import only: "))
    assert " re" in line
    assert "json" not in line
    assert "Network access is blocked." in text


def test_the_retry_context_names_the_hosts_that_can_be_reached(extractor_policy: ExecutionPolicy) -> None:
    network = NetworkPolicy(mode=NetworkMode.ALLOWLIST, hosts=frozenset({"api.example.com"}))
    text = validator.retry_context([], "sandbox", replace(extractor_policy, network=network))
    assert "Only these hosts can be reached: api.example.com (port 443)" in text
    assert "Network access is blocked." not in text


@pytest.mark.parametrize("stage", ["syntax", "security", "signature", "sandbox", "quality", "new"])
def test_every_stage_has_its_headline(stage: str) -> None:
    assert validator.retry_context([], stage).splitlines()[0].endswith(":")


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"code": "x"},
        {"sample_paths": ["/a"]},
        {"code": "x", "sample_paths": []},
        {"code": "x", "sample_paths": ["/a"] * 101},
        {"code": "x", "sample_paths": [""]},
        {"code": "x", "sample_paths": ["a" * 4097]},
        {"code": "x", "sample_paths": [1]},
        {"code": "x", "sample_paths": "/a"},
        {"code": 1, "sample_paths": ["/a"]},
        {"code": None, "sample_paths": ["/a"]},
        {"code": "x", "sample_paths": ["/a"], "timeout_s": 1},
    ],
)
def test_a_payload_of_another_form_is_refused(payload: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ExtractorPayload.model_validate(payload)


def test_a_file_and_sample_paths_make_a_payload() -> None:
    options = FileOptions(sample_paths=("/a", "/b"))
    for name in ("x.py", "answer.md", "answer.txt", STDIN):
        assert from_files({name: "ü = 1".encode()}, options) == {
            "code": "ü = 1",
            "sample_paths": ["/a", "/b"],
        }


@pytest.mark.parametrize(
    ("files", "paths", "field"),
    [
        ({}, ("/a",), "files"),
        ({"a.py": b"", "b.py": b""}, ("/a",), "files"),
        ({"a.sh": b""}, ("/a",), "a.sh"),
        ({"a.py": b"\xff"}, ("/a",), "a.py"),
        ({"a.py": b"x = 1"}, (), "payload.sample_paths"),
    ],
)
def test_files_that_make_no_payload_are_refused(
    files: dict[str, bytes], paths: tuple[str, ...], field: str
) -> None:
    with pytest.raises(RequestError) as refused:
        from_files(files, FileOptions(sample_paths=paths))
    assert refused.value.field == field


@pytest.mark.parametrize("more", [{"input": {}}, {"extra": {"strict": "no"}}])
def test_options_that_would_do_nothing_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="doesn't accept --input or --option"):
        from_files({"x.py": b"x = 1"}, FileOptions(sample_paths=("/a",), **more))


def test_the_default_policy_is_the_shipped_one(policies: PolicySet) -> None:
    resources = policies.get(validator.default_policy).resources
    assert (resources.timeout_s, resources.unit_timeout_s) == (60, 5)
    assert (resources.memory_bytes, resources.max_processes) == (100 * 2**20, 1)
