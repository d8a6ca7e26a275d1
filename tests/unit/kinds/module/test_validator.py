"""The kind `module`: static stages, plan, judgement, and folders on the command line."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pydantic import ValidationError

from assayd.analysis.worker import examine
from assayd.errors import RequestError
from assayd.kinds.module.command_line import from_files
from assayd.kinds.module.generating import ADAPTER, MANIFEST, TESTS
from assayd.kinds.module.validator import ModulePayload, PreparedModule, validator
from assayd.model.finding import Finding, has_errors
from assayd.model.merge import JudgedRun, decide_verdict, merge_stages
from assayd.model.policy import ExecutionPolicy
from assayd.model.run import Cause, Limits, Program, RunEndReason, RunOutcome, RunResult, UnitResult
from assayd.policies import PolicySet
from assayd.ports.command_line import FileOptions

LIMITS = Limits(timeout_s=60, unit_timeout_s=30, memory_bytes=2**28, max_processes=4)
MANY = f"""\
import pytest
{TESTS}

def test_transform():
    assert OpenMeteo().transform(RAW) == {{"celsius": 21.5}}


@pytest.mark.parametrize("name", ["celsius"])
def test_schema(name):
    assert name in OpenMeteo().get_schema()["required"]
"""
FILES = {"adapter.py": ADAPTER, "test_adapter.py": MANY}


@pytest.fixture(scope="module")
def policy(policies: PolicySet) -> ExecutionPolicy:
    return policies.get("module_validation")


def payload(files: dict[str, str] | None = None, **manifest: object) -> ModulePayload:
    return ModulePayload(manifest={**MANIFEST, **manifest}, files=FILES if files is None else files)


def prepared(policy: ExecutionPolicy, given: ModulePayload | None = None) -> PreparedModule:
    given = given or payload()
    answer = examine(validator, given, policy)
    assert answer.prepared is not None, answer.stages
    return PreparedModule.model_validate({**dict(given), **answer.prepared})


def found(given: ModulePayload, policy: ExecutionPolicy) -> dict[str, list[Finding]]:
    return {stage.name: list(stage.findings) for stage in examine(validator, given, policy).stages}


def test_good_module_passes_all_stages_and_is_prepared_with_its_tests(policy: ExecutionPolicy) -> None:
    assert found(payload(), policy) == {"syntax": [], "contract": [], "manifest": [], "paths": []}
    expected = prepared(policy).expected
    assert expected["test_adapter.py"].certain == ("test_adapter", "test_transform", "test_schema")


def test_all_static_stages_run_whatever_the_first_has_found(policy: ExecutionPolicy) -> None:
    files = {**FILES, "adapter.py": "class W(\n", "../x.py": "import socket\n"}
    stages = found(payload(files, version="1"), policy)
    assert {name: has_errors(findings) for name, findings in stages.items()} == {
        "syntax": True, "contract": True, "manifest": True, "paths": True,
    }  # fmt: skip
    assert stages["syntax"][0].file == "adapter.py"


@pytest.mark.parametrize(
    ("files", "stage", "rule", "file"),
    [
        ({"adapter.py": "import socket\n" + ADAPTER}, "contract", "import.not_allowed", "adapter.py"),
        ({"test_adapter.py": "import socket\n" + MANY}, "contract", "import.not_allowed", "test_adapter.py"),
        ({"client.py": "eval('1')\n"}, "contract", "forbidden.name", "client.py"),
        ({"test_adapter.py": "x = 1\n"}, "contract", "tests.none_found", "test_adapter.py"),
        ({"client.py": ""}, "syntax", "source.empty", "client.py"),
    ],
)
def test_finding_names_its_file(
    policy: ExecutionPolicy, files: dict[str, str], stage: str, rule: str, file: str
) -> None:
    findings = found(payload({**FILES, **files}), policy)[stage]
    assert [(finding.rule, finding.file) for finding in findings] == [(rule, file)]
    assert rule in {known.id for known in validator.rules}


def test_empty_file_of_a_package_is_fine(policy: ExecutionPolicy) -> None:
    files = {"pkg/__init__.py": "", "pkg/api.py": "from . import other\n", "pkg/other.py": "x = 1\n"}
    assert not any(found(payload({**FILES, **files}), policy).values())


def test_module_without_tests_or_adapter_fails(policy: ExecutionPolicy) -> None:
    assert [f.rule for f in found(payload({"adapter.py": ADAPTER}), policy)["contract"]] == [
        "tests.none_found"
    ]
    alone = found(payload({"test_adapter.py": "def test_a(): assert f()\n"}), policy)["contract"]
    assert [f.rule for f in alone] == ["contract.no_file"]


def test_entrypoint_may_be_the_class_or_its_file(policy: ExecutionPolicy) -> None:
    assert found(payload(entrypoint="adapter"), policy)["manifest"] == []
    [finding] = found(payload(entrypoint="Other"), policy)["manifest"]
    assert (finding.rule, finding.is_error) == ("manifest.entrypoint", False)
    assert "OpenMeteo" in (finding.suggestion or "")


def test_contract_of_the_profile_is_what_counts(policy: ExecutionPolicy) -> None:
    other = replace(policy, adapter=replace(policy.adapter, methods=("run",), modules=("shared.base",)))
    rules = [f.rule for f in found(payload(), other)["contract"]]
    assert rules == ["contract.missing_method", "import.not_allowed"]


def test_line_ends_and_marks_are_made_plain(policy: ExecutionPolicy) -> None:
    files = {name: "\ufeff" + text.replace("\n", "\r\n") for name, text in FILES.items()}
    assert prepared(policy, payload(files)).files == FILES


def test_plan_looks_at_the_adapter_and_runs_each_file_of_tests(policy: ExecutionPolicy) -> None:
    files = {**FILES, "tests/test_more.py": "def test_x(): pass\n", "data.json": "{}"}
    spec = validator.plan(prepared(policy, payload(files)), policy, LIMITS)
    assert [(u.name, u.program) for u in spec.units] == [
        ("contract", Program.PYTHON),
        ("test_adapter.py", Program.PYTEST),
        ("tests/test_more.py", Program.PYTEST),
    ]
    assert {u.deadline_s for u in spec.units} == {30}
    assert all(u.fresh_cwd for u in spec.units)
    assert spec.units[1].arguments == {
        "test": "test_adapter.py",
        "covered": "adapter.py",
        "modules": {
            "files": ["adapter.py", "test_adapter.py", "tests/test_more.py"],
            "provided": ["assayd_adapter"],
            "decorators": ["register_adapter"],
            "base_classes": ["Adapter", "BaseAdapter"],
        },
    }
    assert (spec.image, spec.files["data.json"], spec.allow_exec) == ("adapter", b"{}", False)
    assert {"adapter", "tests.test_more", "tests", "assayd_adapter", "httpx"} <= spec.imports.allowed
    assert spec.imports.denied == policy.imports.denied


def test_preload_is_the_same_for_every_submission(policy: ExecutionPolicy) -> None:
    narrow = replace(policy, imports=replace(policy.imports, allowed=frozenset({"json"})))
    other = payload({**FILES, "client.py": "x = 1\n"})
    assert validator.plan(other, narrow, LIMITS).preload == validator.plan(payload(), policy, LIMITS).preload


def told(*lines: dict[str, object], good: bool = True) -> bytes:
    names = [line["id"] for line in lines if line["event"] == "started"]
    whole = [{"event": "collected", "tests": names}, *lines]
    ended = sum(line["event"] == "ended" for line in lines)
    final = {"status": "returned" if good else "failed", "lines": len(whole), "collected": len(names)}
    return b"\n".join(json.dumps(line).encode() for line in (*whole, {**final, "ended": ended, "notes": []}))


def ran(outcome: str = "passed") -> bytes:
    names = [f"test_adapter.py::{name}" for name in ("test_adapter", "test_transform", "test_schema[a]")]
    lines: list[dict[str, object]] = []
    for name in names:
        end = {
            "event": "ended",
            "id": name,
            "outcome": outcome,
            "duration_s": 0.1,
            "stdout": "",
            "stderr": "",
        }
        lines += [{"event": "started", "id": name}, end]
    return told(*lines, good=outcome not in {"failed", "error"})


CONTRACT = json.dumps(
    {
        "status": "returned",
        "values": {
            "found": {
                "value": [
                    {
                        "name": "OpenMeteo",
                        "module": "adapter",
                        "methods": dict.fromkeys(("fetch_raw", "transform", "get_schema"), "callable"),
                    }
                ],
                "value_type": "list",
                "notes": [],
            }
        },
        "missing": [],
    }
).encode()


def result(*records: tuple[str, bytes | None, Cause]) -> RunResult:
    units = tuple(
        UnitResult(
            name=name,
            wait_status=0 if cause is Cause.COMPLETED else 256,
            results=() if record is None else (record,),
            outcome=RunOutcome(cause=cause),
        )
        for name, record, cause in records
    )
    worst = next(
        (unit.outcome for unit in units if not unit.outcome.completed), RunOutcome(cause=Cause.COMPLETED)
    )
    return RunResult(units=units, end=RunEndReason.FINISHED, outcome=worst)


GOOD_CONTRACT = ("contract", CONTRACT, Cause.COMPLETED)


def judged_rules(policy: ExecutionPolicy, *records: tuple[str, bytes | None, Cause]) -> dict[str, list[str]]:
    judgement = validator.judge(prepared(policy), policy, result(*records))
    return {stage: [f.rule for f in findings] for stage, findings in judgement.stage_findings.items()}


def test_adapter_and_tests_that_are_fine_pass(policy: ExecutionPolicy) -> None:
    run = result(GOOD_CONTRACT, ("test_adapter.py", ran(), Cause.COMPLETED))
    judgement = validator.judge(prepared(policy), policy, run)
    assert judgement.stage_findings == {"sandbox": ()}
    assert [case.status.value for case in judgement.cases] == ["passed"] * 3


@pytest.mark.parametrize(
    ("record", "cause", "verdict"),
    [
        (ran(), Cause.COMPLETED, "validated"),
        (ran("failed"), Cause.EXITED_NONZERO, "failed"),
        (None, Cause.INFRASTRUCTURE, "error"),
    ],
)
def test_verdict_says_whose_trouble_it_was(
    policy: ExecutionPolicy, record: bytes | None, cause: Cause, verdict: str
) -> None:
    run = result(GOOD_CONTRACT, ("test_adapter.py", record, cause))
    all_of_it = JudgedRun(result=run, judgement=validator.judge(prepared(policy), policy, run))
    stages = merge_stages((), validator.runtime_stages, all_of_it)
    assert decide_verdict(stages, all_of_it).value == verdict


def test_tests_that_were_all_skipped_do_not_pass(policy: ExecutionPolicy) -> None:
    rules = judged_rules(policy, GOOD_CONTRACT, ("test_adapter.py", ran("skipped"), Cause.COMPLETED))
    assert rules == {"sandbox": ["tests.all_skipped"]}


def test_adapter_that_registers_nothing_fails_though_its_tests_pass(policy: ExecutionPolicy) -> None:
    empty = CONTRACT.replace(b'"module": "adapter"', b'"module": "other"')
    rules = judged_rules(
        policy, ("contract", empty, Cause.COMPLETED), ("test_adapter.py", ran(), Cause.COMPLETED)
    )
    assert rules == {"sandbox": ["contract.not_registered"]}


def test_units_out_of_place_are_none(policy: ExecutionPolicy) -> None:
    judgement = validator.judge(
        prepared(policy), policy, result(("test_adapter.py", ran(), Cause.COMPLETED), GOOD_CONTRACT)
    )
    assert [f.rule for f in judgement.stage_findings["sandbox"]] == ["tests.all_skipped"]
    assert {case.status.value for case in judgement.cases} == {"skipped"}


def test_compiler_that_disagrees_is_a_finding_of_the_syntax_stage(policy: ExecutionPolicy) -> None:
    raised = {
        "error_type": "SyntaxError",
        "message": "no",
        "file": None,
        "line": None,
        "traceback": "",
        "where": None,
    }
    record = b"\n".join(
        json.dumps(line).encode()
        for line in (
            {"event": "not_imported", **raised},
            {"status": "failed", "lines": 1, "collected": 0, "ended": 0, "notes": []},
        )
    )
    rules = judged_rules(policy, GOOD_CONTRACT, ("test_adapter.py", record, Cause.EXITED_NONZERO))
    assert rules == {"syntax": ["syntax.guest_disagrees"], "sandbox": []}


def test_what_preparing_adds_is_no_field_of_a_submission() -> None:
    text = json.dumps({"manifest": MANIFEST, "files": FILES, "expected": {}})
    with pytest.raises(ValidationError, match="expected"):
        ModulePayload.model_validate_json(text)


def test_labels_are_category_and_platform_of_the_manifest() -> None:
    assert validator.labels(payload()) == {"category": "weather", "platform": "open_meteo"}
    assert validator.labels(payload(category=7, platform=None)) == {}


def test_retry_context_names_file_and_line(policy: ExecutionPolicy) -> None:
    findings = found(payload({**FILES, "adapter.py": "import socket\n" + ADAPTER}), policy)["contract"]
    text = validator.retry_context(findings, "contract")
    assert "adapter.py, line 1: Import of 'socket'" in text


SOURCES = {"adapter.py": ADAPTER.encode(), "test_adapter.py": MANY.encode()}
YAML = b"""
module_id: weather/open_meteo
version: 1.0.0
category: weather
platform: open_meteo
entrypoint: OpenMeteo
capabilities: [current]
description: since 2024-01-01
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [("manifest.json", json.dumps(MANIFEST).encode()), ("manifest.yaml", YAML), ("manifest.yml", YAML)],
)
def test_folder_is_a_manifest_and_files(name: str, text: bytes) -> None:
    left_out = {"__pycache__/adapter.pyc": b"\xff", ".git/HEAD": b"x", "tests/.cache/x": b"x"}
    built = from_files({name: text, **SOURCES, **left_out}, FileOptions())
    assert built["files"] == FILES
    assert {key: built["manifest"][key] for key in MANIFEST} == MANIFEST  # type: ignore[index]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no manifest.json"),
        ({"manifest.json": b"{}", "manifest.yaml": b"{}"}, "both manifest.json and manifest.yaml"),
        ({"manifest.json": b"[]"}, "isn't an object"),
        ({"manifest.json": b"{"}, "can't be read"),
        ({"manifest.json": b'{"a": 1, "a": 2}'}, "is repeated"),
        ({"manifest.json": b'{"a": NaN}'}, "can't be read"),
        ({"manifest.yaml": b"a: 1\na: 2\n"}, "is repeated"),
        ({"manifest.yaml": b"a: &x [1]\nb: [*x, *x]\n"}, "line 2 has an alias; write the value itself"),
        ({"manifest.yaml": b"a: !!python/object/apply:os.system [id]\n"}, "can't be read"),
        ({"manifest.yaml": b"1: x\n"}, "isn't an object"),
        ({"manifest.json": b"{}", "adapter.py": b"\xff"}, "adapter.py isn't UTF-8"),
    ],
)
def test_folder_that_is_no_module_is_refused(files: dict[str, bytes], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        from_files({**SOURCES, **files}, FileOptions())


def test_options_of_other_kinds_are_refused() -> None:
    with pytest.raises(RequestError, match="accepts only files"):
        from_files({"manifest.json": b"{}"}, FileOptions(sample_paths=("/a",)))


def test_a_fix_is_asked_with_the_failed_test_in_view_and_without_the_edits_of_other_files() -> None:
    edit = {"start_line": 1, "end_line": 1, "replacement": ""}
    report = {
        "findings": [{"severity": "error", "rule": "tests.failed", "file": "test_z.py"}],
        "fix_hints": [{"file": "test_z.py", "edit": edit}, {"file": "adapter.py", "edit": edit}],
        "retry_context": "test_z.py, line 3: assert 1 == 2",
    }
    files = {
        "adapter.py": "x = 1\n",
        **{f"a{n}.json": "{}" for n in range(8)},
        "test_z.py": "assert 1 == 2\n",
    }
    context = validator.context(ModulePayload(manifest={}, files=files), report)
    assert context.passage.name == "adapter.py"
    assert context.failure == "test_z.py, line 3: assert 1 == 2"
    assert [one.title for one in context.surroundings][:2] == ["test_z.py", "a0.json"]
    assert len(context.edits) == 1
    assert any("Keep the tests unchanged" in one for one in context.instructions)


def test_fix_of_unreadable_file_is_asked_without_rules_and_other_files() -> None:
    report = {"findings": [{"severity": "error", "rule": "syntax.missing_colon", "file": "adapter.py"}]}
    files = {"adapter.py": "class A\n", "test_adapter.py": "x = 1\n"}
    context = validator.context(ModulePayload(manifest={}, files=files), report)
    assert (context.instructions, context.surroundings, context.other_forms) == ((), (), ())


def test_fix_of_the_manifest_shows_it_and_only_the_names_of_other_files() -> None:
    report = {"findings": [{"severity": "error", "rule": "manifest.value", "layer": "static"}]}
    files = {"adapter.py": "class A: ...\n", "test_adapter.py": "x = 1\n"}
    context = validator.context(ModulePayload(manifest={"version": "1"}, files=files), report)
    told = {one.title: one.text for one in context.surroundings}
    assert told == {"manifest": '{"version": "1"}', "other files": "test_adapter.py"}
