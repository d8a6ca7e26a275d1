"""The extractor's time limits, per path and per attempt, with scripted results."""

from __future__ import annotations

import json
from dataclasses import replace

from assayd.kinds.extractor.validator import ExtractorPayload, validator
from assayd.model.finding import has_errors
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import CaseStatus
from assayd.model.run import Limits, ResourceUsage, RunEndReason, RunResult, UnitResult, derive_attempt_limits
from assayd.sandbox.outcome import classify_run, determine_unit_outcome

CODE = "def extract(path: str) -> dict:\n    return {'a': 1}\n"
LIMITS = Limits(timeout_s=60, unit_timeout_s=5, memory_bytes=100 * 2**20, max_processes=1)
RECORD = {"status": "returned", "value": {"a": 1}, "value_type": "dict", "notes": [], "duration_s": 4.0}
SLOW = ExtractorPayload(code=CODE, sample_paths=tuple(f"data/{number}.csv" for number in range(20)))


def slow(count: int) -> RunResult:
    """Return a run in which this number of paths took four seconds each and returned a dict."""
    planned = validator.plan(SLOW, ExecutionPolicy(name="x"), LIMITS).units
    took, record = ResourceUsage(wall_s=4.0, cpu_s=4.0), json.dumps(RECORD).encode()
    ended = [UnitResult(name=p, wait_status=0, results=(record,), usage=took) for p in SLOW.sample_paths]
    pairs = list(zip(ended, planned, strict=True))[:count]
    units = tuple(replace(unit, outcome=determine_unit_outcome(unit, plan)) for unit, plan in pairs)
    return RunResult(units=units, end=RunEndReason.FINISHED)


def test_twelve_paths_of_four_seconds_pass_within_the_limits_of_the_shipped_profile(
    extractor_policy: ExecutionPolicy,
) -> None:
    payload = SLOW.model_copy(update={"sample_paths": SLOW.sample_paths[:12]})
    spec = validator.plan(payload, extractor_policy, derive_attempt_limits(extractor_policy, LIMITS))
    result = slow(12)
    assert spec.limits.timeout_s >= sum(one.usage.wall_s for one in result.units)
    assert all(one.deadline_s == 5 for one in spec.units)
    judgement = validator.judge(payload, extractor_policy, classify_run(result, spec))
    assert not has_errors(f for found in judgement.stage_findings.values() for f in found)
    assert [case.status for case in judgement.cases] == [CaseStatus.PASSED] * 12


def test_paths_beyond_the_limit_of_the_attempt_are_told_as_that_limit_and_the_others_keep_their_results(
    extractor_policy: ExecutionPolicy,
) -> None:
    spec = validator.plan(SLOW, extractor_policy, derive_attempt_limits(extractor_policy, LIMITS))
    overdue = replace(slow(15), end=RunEndReason.DEADLINE)
    judgement = validator.judge(SLOW, extractor_policy, classify_run(overdue, spec))
    statuses = [case.status for case in judgement.cases]
    assert statuses == [CaseStatus.PASSED] * 15 + [CaseStatus.SKIPPED] * 5
    [finding] = judgement.stage_findings["sandbox"]
    assert finding.rule == "sandbox.timeout"
    assert "limit of the whole attempt, 60 s; 5 of 20 paths" in finding.message
