"""Every kind supports generation: what a model is told, and how its answer becomes a submission."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace

import pytest
from pydantic import ValidationError

from assayd.analysis.messages import PatchRequest
from assayd.analysis.worker import build_briefing, patch, run_stages
from assayd.kind import Kind
from assayd.kinds import registry as validators
from assayd.model.policy import ExecutionPolicy, NetworkMode, RuleLevel
from assayd.model.prompting import Proposal
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.sql import preparer
from assayd_pipeline.worker import describe_sqlite, parse_shell
from support.texts.examples import example_submission

POLICIES = load_policies([get_shared_data_path("policies")])
KINDS = [kind for kind in validators.load_validators(()).values() if kind.generation_context is not None]
CONTEXTS: Mapping[str, Mapping[str, object]] = {
    "extractor": {"sample_paths": ["/data/CLIENT-ABC/2024/Q1/report.csv"]},
    "code": {"inputs": {"orders": [], "least": 1}},
    "script": {"stdin": "a 1\n", "collect": ["out.csv"]},
    "module": {"files": {"current.json": "{}"}},
    "pipeline": {"files": {"data/s.csv": "a,b\n"}, "database": {"schema_sql": "CREATE TABLE t (a);"}},
    "fifth": {"libraries": ["math"], "task_type": "report"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _reader() -> None:
    reader.install_reader(parse_shell)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_has_a_task_rules_and_an_example_in_its_own_form(kind: Kind) -> None:
    context = json.dumps(CONTEXTS[kind.name]).encode()
    briefed = build_briefing(kind, context, POLICIES.get(kind.default_policy))
    assert briefed.briefing.task
    assert briefed.briefing.rules
    proposal = briefed.briefing.example.answer
    assert proposal.form in kind.forms
    assert briefed.briefing.form.startswith(f'{{"{proposal.form}": ')


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_example_is_accepted_by_every_static_stage_under_the_default_profile(kind: Kind) -> None:
    policy = POLICIES.get(kind.default_policy)
    submission = example_submission(kind)
    payload = kind.payload.model_validate_json(json.dumps(submission["payload"]))
    stages = run_stages(kind, payload, policy)
    assert {stage.name: [found.rule for found in stage.findings if found.is_error] for stage in stages} == {
        stage.name: [] for stage in stages
    }


def told_under(name: str, policy: ExecutionPolicy) -> str:
    kind = validators.find_validator(name)
    return "\n".join(build_briefing(kind, json.dumps(CONTEXTS[name]).encode(), policy).briefing.rules)


@pytest.mark.parametrize(
    ("name", "there", "gone"),
    [
        ("extractor", "Import only: sqlite3.", "datetime"),
        ("module", "Import only: adapter, assayd_adapter, sqlite3.", "httpx, io"),
        ("pipeline", "bash's builtins: gzip.", "jq"),
    ],
)
def test_rules_name_what_the_effective_profile_allows(name: str, there: str, gone: str) -> None:
    shipped = POLICIES.get(validators.find_validator(name).default_policy)
    own = replace(
        shipped,
        imports=replace(shipped.imports, allowed=frozenset({"sqlite3"}), names={}),
        commands=replace(shipped.commands, allowed=frozenset({"gzip"})),
        sql=replace(shipped.sql, rules=(("sql.drop", RuleLevel.OFF),)),
    )
    told = told_under(name, own)

    assert there in told
    assert gone in told_under(name, shipped)
    assert gone not in told
    assert "DROP" not in told


@pytest.mark.parametrize("name", [kind.name for kind in KINDS if kind.name != "fifth"])
def test_rules_name_the_hosts_of_the_effective_profile(name: str) -> None:
    shipped = POLICIES.get(validators.find_validator(name).default_policy)
    network = replace(shipped.network, mode=NetworkMode.ALLOWLIST, hosts=frozenset({"api.example"}))
    told = told_under(name, replace(shipped, network=network))

    assert "api.example (port 443)" in told
    assert "Network access is blocked." in told_under(name, shipped)


@pytest.mark.parametrize("name", ["extractor", "module", "pipeline"])
def test_profile_that_only_reports_refuses_nothing_in_a_prompt(name: str) -> None:
    told = told_under(name, POLICIES.get("contained"))

    assert "Import only" not in told
    assert "Not allowed in bash" not in told
    assert "DROP" not in told
    assert "No file may use" not in told


@pytest.mark.parametrize("name", ["pipeline", "script"])
def test_file_is_shown_under_its_path_with_how_much_of_it_that_is(name: str) -> None:
    files = {"data/long.csv": "a\n" * 2500, "data/short.csv": "a\n"}
    kind = validators.find_validator(name)
    briefed = build_briefing(kind, json.dumps({"files": files}).encode(), POLICIES.get(kind.default_policy))
    assert [around.title for around in briefed.briefing.surroundings] == [
        "file data/long.csv (first 2048 of 5000 bytes)",
        "file data/short.csv (2 bytes)",
    ]


def test_comparison_of_cases_is_stated_where_there_are_cases() -> None:
    kind, policy = validators.find_validator("code"), POLICIES.get("code")
    with_cases = {"cases": [{"name": "none", "inputs": {}, "expected": 10}]}
    told = [build_briefing(kind, json.dumps(one).encode(), policy).briefing.rules for one in ({}, with_cases)]
    assert ["10 equals 10.0" in "\n".join(rules) for rules in told] == [False, True]


def test_comparison_is_stated_for_the_modes_that_cases_have() -> None:
    kind, policy = validators.find_validator("script"), POLICIES.get("script")
    cases = [{"name": mode, "expected": "1", "compare": mode} for mode in ("exact", "float")]
    told = "\n".join(build_briefing(kind, json.dumps({"cases": cases}).encode(), policy).briefing.rules)
    assert "to the last character" in told
    assert "`float`" in told
    assert "`tokens`" not in told


def test_code_node_whose_cases_have_the_inputs_is_not_told_that_it_has_none() -> None:
    kind, policy = validators.find_validator("code"), POLICIES.get("code")
    cases = {"cases": [{"name": "one", "inputs": {"x": 1}, "expected": 1}]}
    told = [
        build_briefing(kind, json.dumps(one).encode(), policy).briefing.surroundings for one in ({}, cases)
    ]
    assert [[one.title for one in each] for each in told] == [
        ["inputs"],
        ["cases that must pass: inputs -> result"],
    ]


def test_module_with_fixed_manifest_and_tests_is_asked_for_its_adapter_alone() -> None:
    kind, policy = validators.find_validator("module"), POLICIES.get("module_validation")
    given = {"manifest": {"version": "1.0.0"}, "files": {"test_it.py": "def test_it(): ..."}}
    whole, fixed = (build_briefing(kind, json.dumps(one).encode(), policy).briefing for one in ({}, given))
    assert "manifest.json" in whole.task
    assert fixed.task == "Write an adapter module: adapter.py."
    assert list(fixed.example.answer.files) == ["adapter.py"]
    assert not [rule for rule in fixed.rules if "manifest.json" in rule or "pytest runs" in rule]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_prompt_names_no_module_or_command_that_the_policy_refuses(kind: Kind) -> None:
    policy = POLICIES.get(kind.default_policy)
    rules = build_briefing(kind, json.dumps(CONTEXTS[kind.name]).encode(), policy).briefing.rules
    for rule in rules:
        if rule.startswith("Import only: "):
            names = set(rule.removeprefix("Import only: ").rstrip(".").split(", "))
            assert all(policy.imports.allows(name) for name in names - {"adapter", "assayd_adapter"})
        if rule.startswith("Bash steps may run"):
            names = set(rule.partition("builtins: ")[2].rstrip(".").split(", "))
            assert names <= policy.commands.allowed


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_context_of_another_kind_is_refused(kind: Kind) -> None:
    assert kind.generation_context is not None
    with pytest.raises(ValidationError, match="no_such"):
        kind.generation_context.model_validate_json(json.dumps({**CONTEXTS[kind.name], "no_such": 1}))


@pytest.mark.parametrize(
    ("name", "proposal", "said"),
    [
        ("extractor", Proposal(files={"a": "b"}), "doesn't accept answers in the form files"),
        ("pipeline", Proposal(code="x"), "doesn't accept answers in the form code"),
        ("pipeline", Proposal(files={"2": "x"}), "step 2 doesn't exist"),
        ("pipeline", Proposal(steps=({"name": "a", "type": "perl", "content": "x"},)), "steps.0.type"),
        ("module", Proposal(files={"manifest.json": "[]"}), "isn't a JSON object"),
        ("module", Proposal(files={"manifest.json": "{"}), "Expecting"),
    ],
)
def test_answer_that_does_not_fit_is_told_and_nothing_breaks(
    name: str, proposal: Proposal, said: str
) -> None:
    kind = validators.find_validator(name)
    briefed = build_briefing(kind, json.dumps(CONTEXTS[name]).encode(), POLICIES.get(kind.default_policy))
    patched = patch(kind, PatchRequest(payload=briefed.base, passage="", proposal=proposal))
    assert said in (patched.problem or "")


def test_cases_give_the_paths_where_there_are_no_others() -> None:
    context = {"cases": [{"name": "one", "path": "/a", "expected": {"x": 1}}]}
    kind = validators.find_validator("extractor")
    briefed = build_briefing(kind, json.dumps(context).encode(), POLICIES.get("extractor"))
    assert briefed.base["sample_paths"] == ["/a"]
    assert any("/a" in around.text for around in briefed.briefing.surroundings)


def database() -> bytes:
    with sqlite3.connect(":memory:") as connection:
        connection.executescript(
            "CREATE TABLE client (id INTEGER PRIMARY KEY, name TEXT NOT NULL);"
            "CREATE TABLE sale (client INTEGER REFERENCES client (id), total REAL);"
            "CREATE VIEW v AS SELECT * FROM sale;"
        )
        return bytes(connection.serialize())


def test_tables_of_a_database_file_are_told_with_columns_and_keys() -> None:
    assert describe_sqlite(database()).splitlines() == [
        "client (id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
        "sale (client INTEGER -> client.id, total REAL)",
        "v (a view)",
    ]


def filled() -> bytes:
    with sqlite3.connect(":memory:") as connection:
        connection.executescript(
            'CREATE TABLE "a""b" (n INTEGER, t TEXT);CREATE VIEW v AS SELECT * FROM gone;'
        )
        connection.executemany('INSERT INTO "a""b" VALUES (?, ?)', [(n, "SECRET" * n) for n in range(1, 50)])
        connection.execute("CREATE TABLE g (x INTEGER)")
        connection.execute("INSERT INTO g VALUES (-9223372036854775807 - 1)")
        connection.execute("ALTER TABLE g ADD COLUMN y INTEGER AS (abs(x))")  # an overflow, once it is read
        return bytes(connection.serialize())


def test_rows_are_shown_where_they_may_be_three_of_each_table_cut_to_size() -> None:
    assert "SECRET" not in describe_sqlite(filled())
    told = describe_sqlite(filled(), 3).splitlines()
    assert told[:4] == [
        'a"b (n INTEGER, t TEXT)',
        "  row: 1, 'SECRET'",
        "  row: 2, 'SECRETSECRET'",
        "  row: 3, 'SECRETSECRETSECRET'",
    ]
    assert told[4].startswith("g (")
    assert told[5].startswith("  (its rows can't be read: ")
    assert told[6:] == ["v (a view)"]


@pytest.mark.parametrize("allowed", [False, True])
def test_request_for_a_pipeline_holds_rows_only_where_it_allows_that(allowed: bool) -> None:
    import base64

    preparer.install_reader(describe_sqlite)
    given = {"base64": base64.b64encode(filled()).decode(), "sample_rows": allowed}
    briefed = build_briefing(
        validators.find_validator("pipeline"),
        json.dumps({"database": given}).encode(),
        POLICIES.get("pipeline"),
    )
    assert ("SECRET" in briefed.briefing.surroundings[0].text) is allowed


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" + b"\xff" * 4000, b"text"])
def test_database_file_that_is_none_is_told(content: bytes) -> None:
    assert describe_sqlite(content)


def test_request_for_a_pipeline_holds_the_tables_of_its_database() -> None:
    import base64

    preparer.install_reader(describe_sqlite)
    context = {"database": {"base64": base64.b64encode(database()).decode()}}
    briefed = build_briefing(
        validators.find_validator("pipeline"), json.dumps(context).encode(), POLICIES.get("pipeline")
    )
    assert "sale (client INTEGER -> client.id" in briefed.briefing.surroundings[0].text


def test_several_steps_are_replaced_by_their_numbers() -> None:
    steps = [{"name": name, "type": "bash", "content": "true"} for name in ("a", "b", "c")]
    proposal = Proposal(files={"1": "false", "3": "ls"})
    patched = patch(
        validators.find_validator("pipeline"),
        PatchRequest(payload={"steps": steps}, passage="1", proposal=proposal),
    )
    assert patched.problem is None
    contents = [step["content"] for step in patched.payload["steps"]]  # type: ignore[attr-defined]
    assert contents == ["false", "true", "ls"]


def test_fix_of_a_module_and_of_a_pipeline_has_the_certain_edits_of_every_place() -> None:
    edit = {"start_line": 1, "end_line": 1, "replacement": "x"}
    files = {"adapter.py": "a\n", "other.py": "b\n", "test_adapter.py": "c\n"}
    module = validators.find_validator("module")
    payload = module.payload.model_validate({"manifest": {}, "files": files})
    hints = [{"file": "other.py", "message": "m", "edit": edit}]
    context = module.context(payload, {"fix_hints": hints, "findings": []})
    assert [one.passage.name for one in context.others] == ["other.py"]

    steps = [{"name": name, "type": "sql", "content": "SELECT 1"} for name in ("a", "b")]
    pipeline = validators.find_validator("pipeline")
    hints = [{"message": f"Step {number} ({name}): m", "edit": edit} for number, name in ((1, "a"), (2, "b"))]
    submitted = pipeline.payload.model_validate({"steps": steps})
    context = pipeline.context(submitted, {"fix_hints": hints, "findings": []})
    assert [one.passage.name for one in context.others] == ["2"]
    assert len(context.edits) == 1


def test_only_a_kind_with_hidden_tests_can_not_be_written_from_words() -> None:
    assert {kind for kind in validators.load_validators(()) if kind not in {one.name for one in KINDS}} == {
        "solution"
    }
