from dataclasses import replace

from assayd.kinds import registry
from assayd.model.policy import RuleLevel
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd_pipeline.errors import ErrorSource as Writer
from assayd_pipeline.generating import instructions

POLICIES = load_policies([get_shared_data_path("policies")])
PIPELINE = POLICIES.get("pipeline")


def test_bans_of_sql_are_those_of_the_effective_profile() -> None:
    refused = "\n".join(instructions(PIPELINE, {Writer.SQL}))
    admitted = "\n".join(instructions(POLICIES.get("analysis"), {Writer.SQL}))
    for words in ("CREATE without IF NOT EXISTS", "INSERT OR REPLACE", "DROP", "UPDATE without WHERE"):
        assert words in refused
        assert words not in admitted
    assert "ATTACH" in refused
    assert "ATTACH" in admitted


def test_request_that_tightens_its_profile_is_told_the_tighter_rule() -> None:
    analysis = POLICIES.get("analysis")
    rules = tuple(sorted({**dict(analysis.sql.rules), "sql.drop": RuleLevel.ERROR}.items()))
    tight = replace(analysis, sql=replace(analysis.sql, rules=rules))
    assert "DROP" in "\n".join(instructions(tight, {Writer.SQL}))


def test_commands_are_those_of_the_policy_and_common_bans_are_named() -> None:
    commands = replace(PIPELINE.commands, allowed=frozenset({"cat"}))
    told = "\n".join(instructions(replace(PIPELINE, commands=commands), {Writer.BASH}))
    assert "builtins: cat." in told
    assert "eval" in told
    assert "rm" in told.split("Not allowed in bash: ")[1]


def test_step_of_one_type_is_told_nothing_of_the_other() -> None:
    sql, bash = (set(instructions(PIPELINE, {kind})) for kind in (Writer.SQL, Writer.BASH))
    assert not [line for line in sql if "pipefail" in line or "awk" in line]
    assert not [line for line in bash if "CAST" in line or "DROP" in line]


def test_fix_is_asked_for_with_the_rules_of_the_steps_that_have_errors() -> None:
    kind = registry.find_validator("pipeline")
    steps = [
        {"name": "count", "type": "bash", "content": "wc -l x"},
        {"name": "load", "type": "sql", "content": "SELECT 1"},
    ]
    report = {"findings": [{"severity": "error", "message": "Step 2 (load): no such table: x"}]}
    payload = kind.payload.model_validate({"steps": steps})
    told = kind.context(payload, report, PIPELINE).instructions  # type: ignore[attr-defined]
    assert set(instructions(PIPELINE, {Writer.SQL})) <= set(told)
    assert not [line for line in told if "pipefail" in line]
