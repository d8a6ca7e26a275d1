"""Mutants of a module: which are run against its tests, and the findings about surviving ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from assayd.analysis.worker import examine
from assayd.kinds.module import mutants_trial
from assayd.kinds.module.mutants import Mutant
from assayd.kinds.module.validator import ModulePayload, PreparedModule, validator
from assayd.model.finding import Finding, Severity
from assayd.model.policy import ExecutionPolicy, NetworkMode, QualityPolicy, RuleLevel
from assayd.model.run import (
    Cause,
    Limits,
    ResourceUsage,
    RunEndReason,
    RunOutcome,
    RunResult,
    RunSpec,
    UnitEndReason,
    UnitResult,
)
from assayd.policies import PolicySet

LIMITS = Limits(timeout_s=60, unit_timeout_s=30, memory_bytes=2**28, max_processes=4)
MANIFEST = {
    "module_id": "shop/rates", "version": "1.0.0", "category": "shop", "platform": "rates",
    "entrypoint": "RatesAdapter", "capabilities": ["current"],
}  # fmt: skip
ADAPTER = """from assayd_adapter import Adapter, register_adapter


@register_adapter(category="shop", platform="rates")
class RatesAdapter(Adapter):
    def fetch_raw(self, base="EUR"):
        return {"base": base}

    def transform(self, raw):
        if raw["total"] < 0:
            raise ValueError("less than nothing")
        return raw["total"] * 2.5

    def get_schema(self):
        return {"type": "object"}
"""
TESTS = """from adapter import RatesAdapter


def test_transform():
    assert RatesAdapter().transform({"total": 1}) == 2.5
"""
OK = RunOutcome(cause=Cause.COMPLETED)
FAILED = RunOutcome(cause=Cause.EXITED_NONZERO)
EVERY_LINE = "6 7;9 10 12;0 11;14 15"
"""Blocks of the adapter, as its tests tell them."""


@pytest.fixture(scope="module")
def policy(policies: PolicySet) -> ExecutionPolicy:
    return replace(policies.get("module_validation"), quality=QualityPolicy(mutants=6))


def prepared(policy: ExecutionPolicy) -> PreparedModule:
    given = ModulePayload(manifest=MANIFEST, files={"adapter.py": ADAPTER, "test_adapter.py": TESTS})
    answer = examine(validator, given, policy)
    assert answer.prepared is not None, answer.stages
    return PreparedModule.model_validate({**dict(given), **answer.prepared})


def first_run(seen: str = "0 1 2 3") -> RunResult:
    name = "test_adapter.py::test_transform"
    lines = [
        {"event": "collected", "tests": [name]},
        {"event": "started", "id": name},
        {"event": "ended", "id": name, "duration_s": 0.1, "outcome": "passed", "stdout": "", "stderr": ""},
        {
            "status": "returned", "framework": 0, "lines": 3, "collected": 1, "ended": 1, "notes": [],
            "blocks": EVERY_LINE, "seen": seen,
        },
    ]  # fmt: skip
    record = "\n".join(map(json.dumps, lines)).encode()
    usage = ResourceUsage(cpu_s=0.2)
    units = (
        UnitResult(name="contract", wait_status=0, outcome=OK),
        UnitResult(name="test_adapter.py", wait_status=0, outcome=OK, results=(record,), usage=usage),
    )
    return RunResult(units=units, end=RunEndReason.FINISHED, outcome=OK)


def trial_run(outcomes: Sequence[RunOutcome], end: UnitEndReason = UnitEndReason.EXITED) -> RunResult:
    units = [UnitResult(name="test_adapter.py", wait_status=0, outcome=one) for one in outcomes]
    if end is not UnitEndReason.EXITED:
        units[-1] = replace(units[-1], end=end)
    return RunResult(units=tuple(units), end=RunEndReason.FINISHED, outcome=FAILED)


def judged(
    policy: ExecutionPolicy,
    outcomes: Sequence[RunOutcome],
    *,
    end: UnitEndReason = UnitEndReason.EXITED,
    seen: str = "0 1 2 3",
) -> Finding:
    found = validator.judge_trial(prepared(policy), policy, first_run(seen), trial_run(outcomes, end))
    (finding,) = found["sandbox"]
    return finding


def test_each_change_is_planned_as_a_unit_with_the_changed_adapter(policy: ExecutionPolicy) -> None:
    payload = prepared(policy)
    spec = validator.plan_trial(payload, policy, LIMITS, first_run())

    assert spec is not None
    assert len(spec.units) == len(payload.mutants) == 6
    texts = {unit.files["adapter.py"] for unit in spec.units}
    assert len(texts) == 6
    assert ADAPTER.encode() not in texts
    assert {unit.deadline_s for unit in spec.units} == {3.0}
    assert all(unit.arguments["first_failure"] is True for unit in spec.units)


def test_a_change_in_a_line_that_no_test_runs_is_unnoticed_without_a_run(policy: ExecutionPolicy) -> None:
    spec = validator.plan_trial(prepared(policy), policy, LIMITS, first_run(seen="1"))
    assert spec is not None
    assert {line for unit in spec.units for line in [_line_of(unit.files["adapter.py"])]} <= {10, 12}

    finding = judged(policy, [FAILED] * len(spec.units), seen="1")
    assert finding.message == "The tests notice 2 of 6 small changes to the adapter."
    assert finding.line == 7


def _line_of(changed: bytes) -> int:
    pairs = zip(changed.decode().split("\n"), ADAPTER.split("\n"), strict=False)
    return next(number for number, (one, other) in enumerate(pairs, 1) if one != other)


def test_few_noticed_changes_are_a_warning_that_names_the_lines(policy: ExecutionPolicy) -> None:
    finding = judged(policy, [FAILED, FAILED, OK, OK, OK, OK])

    assert (finding.severity, finding.rule, finding.file) == (
        Severity.WARNING,
        "quality.mutants",
        "adapter.py",
    )
    assert finding.message == "The tests notice 2 of 6 small changes to the adapter."
    assert finding.suggestion is not None
    assert finding.suggestion.startswith("Assert what the adapter returns. No test fails if line ")
    assert finding.context is not None
    assert finding.context.count("line ") == 4
    assert "`None`" in finding.context


def test_half_of_them_noticed_is_a_figure_alone(policy: ExecutionPolicy) -> None:
    assert judged(policy, [FAILED, FAILED, FAILED, OK, OK, OK]).severity is Severity.INFO


def test_all_noticed_has_no_hint(policy: ExecutionPolicy) -> None:
    finding = judged(policy, [FAILED] * 6)
    assert (finding.severity, finding.suggestion, finding.context, finding.line) == (
        Severity.INFO, None, None, None,
    )  # fmt: skip


def test_changes_that_were_not_tried_in_time_do_not_count(policy: ExecutionPolicy) -> None:
    finding = judged(policy, [FAILED, OK, FAILED], end=UnitEndReason.INTERRUPTED)
    assert finding.message == "The tests notice 1 of 2 small changes to the adapter."
    assert finding.context is not None
    assert finding.context.endswith("4 more changes weren't tried")


def test_each_changed_text_is_held_once_for_all_files_of_tests(policy: ExecutionPolicy) -> None:
    spec, payload = _plan_of_two_files(policy)
    assert len(spec.units) == 2 * len(payload.mutants)
    assert [one.name for one in spec.units[:2]] == ["test_adapter.py", "test_more.py"]
    assert spec.units[0].files["adapter.py"] is spec.units[1].files["adapter.py"]


def test_changes_beyond_the_bytes_of_a_trial_do_not_count(
    policy: ExecutionPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants_trial, "_MAX_BYTES", 5 * len(ADAPTER))
    spec, payload = _plan_of_two_files(policy)
    assert len(spec.units) == 4

    trial = trial_run([FAILED, OK, OK, OK])
    (finding,) = validator.judge_trial(payload, policy, _first_run_of_two_files(), trial)["sandbox"]
    assert finding.message == "The tests notice 1 of 2 small changes to the adapter."
    assert finding.context is not None
    assert finding.context.endswith("4 more changes weren't tried")


def _plan_of_two_files(policy: ExecutionPolicy) -> tuple[RunSpec, PreparedModule]:
    payload = prepared(policy)
    payload = payload.model_copy(update={"files": {**payload.files, "test_more.py": TESTS}})
    spec = validator.plan_trial(payload, policy, LIMITS, _first_run_of_two_files())
    assert spec is not None
    return spec, payload


def _first_run_of_two_files() -> RunResult:
    first = first_run()
    more = replace(first.units[-1], name="test_more.py")
    return replace(first, units=(*first.units, more))


def test_a_failed_preparation_leaves_the_static_answer_complete(
    policy: ExecutionPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = prepared(policy).expected

    def fail(source: str, most: int) -> list[Mutant]:
        raise MemoryError

    monkeypatch.setattr("assayd.kinds.module.validator.generate_mutants", fail)
    without = prepared(policy)
    assert (without.mutants, without.expected) == ([], expected)


def test_a_worker_gets_more_time_before_it_prepares_a_trial(
    policy: ExecutionPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        "assayd.kinds.module.validator.generate_mutants", lambda source, most: told.append("changes") or []
    )
    given = ModulePayload(manifest=MANIFEST, files={"adapter.py": ADAPTER, "test_adapter.py": TESTS})
    examine(validator, given, policy, before_trial=lambda: told.append("more time"))
    assert told == ["more time", "changes"]


@pytest.mark.parametrize(
    "quality",
    [QualityPolicy(), QualityPolicy(mutants=6, rules=(("quality.mutants", RuleLevel.OFF),))],
)
def test_a_profile_that_asks_for_none_has_no_trial(policy: ExecutionPolicy, quality: QualityPolicy) -> None:
    other = replace(policy, quality=quality)
    payload = prepared(other)
    assert payload.mutants == []
    assert validator.plan_trial(payload, other, LIMITS, first_run()) is None
    assert validator.judge_trial(payload, other, first_run(), None) == {"sandbox": []}


def test_nothing_is_tried_under_an_allowlist(policy: ExecutionPolicy) -> None:
    network = replace(policy.network, mode=NetworkMode.ALLOWLIST)
    assert prepared(replace(policy, network=network)).mutants == []
