"""Runs a validator's samples like other attempts, and reports deviations from the expected results.

The results aren't recorded. `assay doctor` and `tests/contract` use this module; therefore, a new kind is
tested without additional code.
"""

from __future__ import annotations

from dataclasses import replace

from assayd.aio import Deadline
from assayd.analysis.analyst import Analyst
from assayd.documents import canonical
from assayd.errors import EngineError
from assayd.kind import Kind
from assayd.model.merge import Ran, decide_verdict, merge_stages
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import StageReport
from assayd.model.run import Limits, RunResult, RunSpec
from assayd.model.submission import Sample
from assayd.sandbox.sandbox import Sandbox

TIMEOUT_RULE = "sandbox.timeout"
UNIT_TIMEOUT_S = 1.0
"""A sample that never ends should not take long to show it; others get what their policy gives."""


class SelfTest:
    """A runner of samples that uses the analysis workers and a sandbox."""

    def __init__(self, analyst: Analyst, sandbox: Sandbox) -> None:
        self._analyst = analyst
        self._sandbox = sandbox

    async def complaints(
        self, validator: Kind, sample: Sample, *, policy: ExecutionPolicy, limits: Limits
    ) -> list[str]:
        """Run one sample; return a sentence for each deviation from the sample's expected result.

        Raises: AssaydError, if the sample can't be run.
        """
        timeout_s = sample.unit_timeout_s
        if timeout_s is None and TIMEOUT_RULE in sample.rules:
            timeout_s = UNIT_TIMEOUT_S
        if timeout_s is not None:
            limits = replace(limits, unit_timeout_s=min(limits.unit_timeout_s, timeout_s))
        payload = validator.payload.model_validate_json(canonical(sample.payload))
        checked = await self._analyst.check(validator, payload, policy)
        ran = None
        spec = None if checked.failed else validator.plan(checked.payload, policy, limits)
        if spec is not None:
            result = await self._run(spec, limits)
            ran = Ran(result=result, judgement=validator.judge(checked.payload, policy, result))
        return _compare(sample, merge_stages(checked.stages, validator.runtime_stages, ran), ran)

    async def _run(self, spec: RunSpec, limits: Limits, *, again: bool = True) -> RunResult:
        """Run a container; as for an attempt, repeat the lease once after a retryable error."""
        try:
            async with self._sandbox.lease(spec) as lease:
                return await self._sandbox.run(lease, Deadline(limits.timeout_s))
        except EngineError as problem:
            if not (problem.retryable and again):
                raise
        return await self._run(spec, limits, again=False)


def _compare(sample: Sample, stages: tuple[StageReport, ...], ran: Ran | None) -> list[str]:
    verdict = decide_verdict(stages, ran)
    found = {finding.rule for report in stages for finding in report.findings}
    complaints = []
    if verdict != sample.verdict:
        complaints.append(f"{verdict} instead of {sample.verdict}; found {sorted(found)}")
    if missing := sample.rules - found:
        complaints.append(f"without {', '.join(sorted(missing))}; found {sorted(found)}")
    if (ran is not None) != sample.needs_container:
        complaints.append("a container was used" if ran else "no container was used")
    return complaints
