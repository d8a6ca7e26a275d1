"""Takes a submission through all steps without a daemon: static stages, run, judgement, verdict."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from assayd.analysis.analyst import AnalysisLimits, Analyst
from assayd.documents import canonical
from assayd.kinds import registry as validators
from assayd.model.finding import Finding
from assayd.model.merge import JudgedRun, decide_verdict, merge_stages
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Case, StageReport, StageStatus, Verdict
from assayd.model.run import Limits, RunResult, derive_attempt_limits
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd.ports.engine import Engine
from assayd.sandbox.sandbox import Sandbox
from support.engines import sandboxes

CAPS = Limits(timeout_s=0, unit_timeout_s=0, memory_bytes=0, max_processes=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The result of a submission."""

    verdict: Verdict
    stages: tuple[StageReport, ...]
    result: RunResult | None
    cases: tuple[Case, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in stage order."""
        return tuple(finding for stage in self.stages for finding in stage.findings)

    @property
    def rules(self) -> list[str]:
        """The rules of all findings."""
        return [finding.rule for finding in self.findings]

    @property
    def failed_stage(self) -> str | None:
        """The first stage that failed."""
        return next((stage.name for stage in self.stages if stage.status is StageStatus.FAILED), None)

    @property
    def case(self) -> Case:
        """Return the only case."""
        [case] = self.cases
        return case


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """Analysis workers and a sandbox."""

    analyst: Analyst
    sandbox: Sandbox

    async def submit(
        self,
        kind: str,
        payload: object,
        *,
        policy: str | None = None,
        unit_timeout_s: float | None = None,
        image: str | None = None,
    ) -> Tried:
        """Run one submission, by default under its kind's policy and in the policy's image."""
        validator = validators.find_validator(kind)
        profile = load_policies([get_shared_data_path("policies")]).get(policy or validator.default_policy)
        submitted = validator.payload.model_validate_json(canonical(payload))
        profile = validator.narrow(submitted, profile)
        limits = _limits(profile, unit_timeout_s)
        checked = await self.analyst.check(validator, submitted, profile)
        ran = None
        if not checked.failed and (spec := validator.plan(checked.payload, profile, limits)) is not None:
            result = await sandboxes.run(self.sandbox, replace(spec, image=image or spec.image))
            ran = JudgedRun(result=result, judgement=validator.judge(checked.payload, profile, result))
        stages = merge_stages(checked.stages, validator.runtime_stages, ran)
        return Tried(
            verdict=decide_verdict(stages, ran),
            stages=stages,
            result=ran.result if ran else None,
            cases=ran.judgement.cases if ran else (),
        )


def _limits(profile: ExecutionPolicy, unit_timeout_s: float | None) -> Limits:
    limits = derive_attempt_limits(profile, CAPS)
    return limits if unit_timeout_s is None else replace(limits, unit_timeout_s=unit_timeout_s)


@asynccontextmanager
async def attempts_on(engine: Engine) -> AsyncIterator[Attempts]:
    """Return an object that runs submissions, and close the engine at the end."""
    try:
        async with (
            sandboxes.sandbox_on(engine, ready=1) as sandbox,
            Analyst(AnalysisLimits(workers=1)).running() as analyst,
        ):
            yield Attempts(analyst=analyst, sandbox=sandbox)
    finally:
        await engine.close()
