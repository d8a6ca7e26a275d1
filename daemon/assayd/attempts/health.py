"""The rows of `assay doctor` that need no engine, and the self-test of kinds.

The self-test runs a validator's samples like other attempts, and reports deviations from the expected
results. The results aren't recorded. `assay doctor` and `tests/contract` use this module; therefore, a new
kind is tested without additional code.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from assayd.aio import Deadline
from assayd.analysis.analyst import Analyst
from assayd.documents import canonical
from assayd.errors import EngineError
from assayd.kind import Kind
from assayd.model.health import HealthRow, HealthStatus
from assayd.model.merge import JudgedRun, decide_verdict, merge_stages
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

    async def run_sample(
        self, validator: Kind, sample: Sample, *, policy: ExecutionPolicy, limits: Limits
    ) -> list[str]:
        """Run one sample, and return a sentence for each deviation from the sample's expected result.

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
            result = await self._run_spec(spec, limits)
            ran = JudgedRun(result=result, judgement=validator.judge(checked.payload, policy, result))
        return _find_sample_deviations(
            sample, merge_stages(checked.stages, validator.runtime_stages, ran), ran
        )

    async def _run_spec(self, spec: RunSpec, limits: Limits, *, again: bool = True) -> RunResult:
        """Run a container. As for an attempt, repeat the lease once after a retryable error."""
        try:
            async with self._sandbox.lease(spec) as lease:
                return await self._sandbox.run(lease, Deadline(limits.timeout_s))
        except EngineError as problem:
            if not (problem.retryable and again):
                raise
        return await self._run_spec(spec, limits, again=False)


def _find_sample_deviations(
    sample: Sample, stages: tuple[StageReport, ...], ran: JudgedRun | None
) -> list[str]:
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


def build_identity_row(former: str | None, state_dir: str) -> HealthRow:
    """Return a row on whether the state directory is a copy of another daemon's directory, `former`."""
    if former is None:
        return HealthRow(check="identity", status=HealthStatus.OK, detail="the state directory isn't a copy")
    detail = (
        f"the state directory is a copy of that of daemon {former}, whose containers this "
        "daemon doesn't remove"
    )
    remedy = (
        f"to keep the copy, run `ASSAYD_STATE_DIR={shlex.quote(state_dir)} assayd --acknowledge-copy` as the "
        "daemon's user and restart; if the other daemon no longer exists, remove its containers manually"
    )
    return HealthRow(check="identity", status=HealthStatus.WARN, detail=detail, remedy=remedy)


def build_policies_row(problem: str) -> HealthRow:
    """Return a row on whether the policies in use match the files. `problem` is the reason if not."""
    if not problem:
        return HealthRow(
            check="policies", status=HealthStatus.OK, detail="the profiles in use match the files"
        )
    detail = f"the files can't be loaded; the earlier profiles stay in use: {problem}"
    remedy = "correct the files and reload; the daemon can't start with these files"
    return HealthRow(check="policies", status=HealthStatus.WARN, detail=detail, remedy=remedy)


def build_kinds_row(missing: Mapping[str, str], left_out: Mapping[str, str]) -> HealthRow:
    """Return a row that reports whether all kinds can be used.

    `missing` maps purposes, e.g. kinds, to packages that aren't installed. `left_out` maps kinds to the
    policies that no file defines.
    """
    if left_out:
        detail = "; ".join(f"{kind} isn't served: no policy {policy}" for kind, policy in left_out.items())
        remedy = "put the policy's file into a folder of `policy_folders`, then restart the daemon"
        return HealthRow(check="kinds", status=HealthStatus.FAIL, detail=detail, remedy=remedy)
    if not missing:
        return HealthRow(check="kinds", status=HealthStatus.OK, detail="all are installed")
    detail = "not installed: " + ", ".join(f"{kind} ({package})" for kind, package in missing.items())
    remedy = "install the whole package if you need them"
    return HealthRow(check="kinds", status=HealthStatus.WARN, detail=detail, remedy=remedy)


def build_helpers_row(missing: Mapping[str, str]) -> HealthRow:
    """Return a row on whether the optional programs are installed. `missing` describes their uses."""
    if not missing:
        return HealthRow(
            check="helpers", status=HealthStatus.OK, detail="all optional programs are installed"
        )
    detail = "; ".join(f"{name} isn't installed: {without}" for name, without in missing.items())
    remedy = f"install {', '.join(missing)}, then restart the daemon"
    return HealthRow(check="helpers", status=HealthStatus.WARN, detail=detail, remedy=remedy)


def build_static_misses_row(misses: Counter[tuple[str, str]]) -> HealthRow:
    """Return a row that counts policy violations by kind and rule that only the run revealed."""
    if not misses:
        return HealthRow(check="static misses", status=HealthStatus.OK, detail="none since the start")
    listed = ", ".join(f"{kind} {rule}: {count}" for (kind, rule), count in misses.most_common(10))
    [((kind, rule), _)] = misses.most_common(1)
    remedy = (
        f"report what these attempts do (`assay list --kind {kind} --rule {rule}`), because the static rules "
        "may lack a case; a restart of the daemon resets the count"
    )
    return HealthRow(check="static misses", status=HealthStatus.WARN, detail=listed, remedy=remedy)
