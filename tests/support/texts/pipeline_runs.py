"""Pipelines and their runs as the validator receives them."""

from __future__ import annotations

import json

from assayd.model.finding import Finding
from assayd.model.report import Judgement
from assayd.model.run import (
    CapturedOutput,
    Cause,
    Limits,
    ResourceUsage,
    RunEndReason,
    RunOutcome,
    RunResult,
    UnitResult,
)
from assayd.package_data import get_shared_data_path
from assayd.policies import load_policies
from assayd_pipeline.payload import PipelinePayload
from assayd_pipeline.validator import validator

POLICY = load_policies([get_shared_data_path("policies")]).get("pipeline")
LIMITS = Limits(timeout_s=60, unit_timeout_s=10, memory_bytes=2**28, max_processes=16)
BASH = {"name": "clean up", "type": "bash", "content": "cat data/a\n"}
SQL = {"name": "load", "type": "sql", "content": "SELECT 1;\nSELECT * FROM t;\n"}
RAN = b'{"status":"returned","statements":2,"rows":3,"changes":4}'


def payload(*steps: dict[str, str], **more: object) -> PipelinePayload:
    return PipelinePayload.model_validate_json(json.dumps({"steps": steps, **more}))


def static(submitted: PipelinePayload) -> list[Finding]:
    """Return the findings of the first stage that has any."""
    return next((list(found) for stage in validator.stages if (found := stage.check(submitted, POLICY))), [])


def done(name: str, record: bytes | None = None) -> UnitResult:
    results = () if record is None else (record,)
    return UnitResult(name=name, wait_status=0, results=results, outcome=RunOutcome(cause=Cause.COMPLETED))


def failed(
    name: str, *, cause: Cause = Cause.EXITED_NONZERO, stderr: str = "", record: object = None
) -> UnitResult:
    return UnitResult(
        name=name,
        wait_status=9 if cause is Cause.TIMEOUT else 1 << 8,
        results=() if record is None else (json.dumps(record).encode(),),
        stderr=CapturedOutput(head=stderr.encode(), total_bytes=len(stderr)),
        usage=ResourceUsage(wall_s=10.0),
        outcome=RunOutcome(cause=cause),
    )


def judge(submitted: PipelinePayload, *units: UnitResult, **more: object) -> Judgement:
    outcome = next((unit.outcome for unit in units if not unit.outcome.completed), units[-1].outcome)
    result = RunResult(units=units, end=RunEndReason.FINISHED, outcome=outcome, **more)  # type: ignore[arg-type]
    return validator.judge(submitted, POLICY, result)


def sandbox(judgement: Judgement) -> list[Finding]:
    return list(judgement.stage_findings["sandbox"])
