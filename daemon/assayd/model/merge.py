"""Merges static stage reports and the judgement of a run into one report, and decides the verdict. Pure.

No other module decides or changes a verdict. The merge fails closed: an incomplete run fails the attempt
even if its validator reported no findings.

Before the merge, a profile is applied to findings: severities of quality findings, and report-only mode.
Rules that don't depend on a profile are errors in both modes:

    import os    import.not_allowed     an error under `enforce`, a warning under `report`
    def f(:      syntax.invalid         an error under both
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assayd.model.attempt import Attempt, Failure
from assayd.model.finding import Finding, Layer, Rule, Severity, has_errors, limit_findings
from assayd.model.policy import QUALITY_RULES, ExecutionPolicy, ImportMode, QualityPolicy, RuleLevel
from assayd.model.report import Judgement, Report, StageReport, StageStatus, StaticResult, Verdict
from assayd.model.run import Cause, RunResult
from assayd.model.text_limits import shorten_text


def apply_quality_levels(findings: Iterable[Finding], quality: QualityPolicy) -> tuple[Finding, ...]:
    """Apply the profile's severities to the quality findings.

    Return all findings except those of quality rules that are off.
    """
    return tuple(_apply_levels(findings, quality))


def _apply_levels(findings: Iterable[Finding], quality: QualityPolicy) -> Iterator[Finding]:
    for finding in findings:
        if finding.rule not in QUALITY_RULES or finding.severity is Severity.INFO:
            yield finding
            continue
        level = quality.level(finding.rule)
        if level is not RuleLevel.OFF:
            severity = Severity.ERROR if level is RuleLevel.ERROR else Severity.WARNING
            yield finding if finding.severity is severity else replace(finding, severity=severity)


def is_quality_finding(finding: Finding) -> bool:
    """Return whether a finding reports that a validated submission has little value."""
    return finding.rule in QUALITY_RULES and finding.severity is not Severity.INFO


REPORTED_MESSAGE = 'Reported only: `enforcement = "enforce"` would fail the submission.'
PARTLY_CHECKED_REASON = (
    "its kind checked it only in part, as an extractor with `paths` in its payload; submit the code with "
    "`sample_paths` and approve that attempt"
)
"""The reason why a result that skipped a part of the checks can't be approved."""


def apply_reporting_mode(
    findings: Iterable[Finding], rules: Sequence[Rule], policy: ExecutionPolicy
) -> tuple[Finding, ...]:
    """Return the findings with their rules' profile keys.

    Under a report-only policy, turn errors of these rules into warnings.
    """
    keys = {rule.id: rule.profile_key for rule in rules if rule.profile_key is not None}
    return tuple(_apply_enforcement(finding, keys, policy) for finding in findings)


def would_fail(findings: Iterable[Finding]) -> bool:
    """Return whether any finding is only reported, but would make the submission fail under `enforce`."""
    return any(finding.message.endswith(REPORTED_MESSAGE) for finding in findings)


def _apply_enforcement(finding: Finding, keys: Mapping[str, str], policy: ExecutionPolicy) -> Finding:
    if finding.rule not in keys:
        return finding
    found = replace(finding, profile_key=keys[finding.rule])
    if not policy.is_report_only or not _is_enforced_error(found, policy):
        return found
    return replace(
        found, severity=Severity.WARNING, message=f"{shorten_text(found.message, 500)} {REPORTED_MESSAGE}"
    )


def _is_enforced_error(finding: Finding, policy: ExecutionPolicy) -> bool:
    """Return whether `enforce` would make this finding an error.

    Because a report-only run allows and records forbidden imports, such a record is treated as an error,
    too.
    """
    recorded = finding.layer is Layer.RUNTIME and finding.severity is Severity.INFO
    return finding.is_error or (recorded and policy.imports.mode is ImportMode.ENFORCE)


_VERDICT_BY_CAUSE: Mapping[Cause, Verdict] = {
    Cause.CANCELLED: Verdict.CANCELLED,
    Cause.INFRASTRUCTURE: Verdict.ERROR,
}

MAX_FINDINGS = 500

CANCELLED = "cancelled"
"""Failure code of an attempt that was cancelled before it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run with the validator's judgement of it."""

    result: RunResult
    judgement: Judgement


def determine_status(findings: Sequence[Finding]) -> StageStatus:
    """Return the status of a stage with these findings.

    It is failed if any is an error, warned if any is a warning, and otherwise passed.
    """
    if has_errors(findings):
        return StageStatus.FAILED
    warned = any(f.severity is Severity.WARNING for f in findings)
    return StageStatus.WARNED if warned else StageStatus.PASSED


def merge_stages(
    static: Sequence[StageReport],
    runtime_names: Sequence[str],
    ran: JudgedRun | None,
    *,
    most_findings: int = MAX_FINDINGS,
) -> tuple[StageReport, ...]:
    """Return all stages in order. Add the findings of the run to the stages they belong to.

    Without a run, the run-time stages are skipped. At most `most_findings` findings are kept.
    """
    if ran is None:
        skipped = (StageReport(name=n, status=StageStatus.SKIPPED) for n in runtime_names)
        return _limit_stage_findings((*static, *skipped), most_findings)
    found = dict(ran.judgement.stage_findings)
    first = runtime_names[0]
    found[first] = (*found.get(first, ()), *_list_general_findings(ran))
    stages = [_add_findings(stage, found.pop(stage.name, ())) for stage in static]
    for name in runtime_names:
        reached = name in found
        findings = found.pop(name, ())
        status = determine_status(findings) if reached else StageStatus.SKIPPED
        duration = ran.result.wall_s if name == first else 0.0
        stages.append(StageReport(name=name, status=status, duration_s=duration, findings=findings))
    return _limit_stage_findings(stages, most_findings)


def merge_report(
    blank: Report, stages: tuple[StageReport, ...], ran: JudgedRun | None, failure: Failure | None = None
) -> Report:
    """Return a report with stages, cases and verdict, based on one with only identity, digests and limits."""
    verdict = decide_verdict(stages, ran, failure)
    failed = next((s.name for s in stages if s.status is StageStatus.FAILED), None)
    return replace(
        blank,
        verdict=verdict,
        stage_reached=failed
        or ("complete" if verdict is Verdict.VALIDATED else _find_last_run_stage(stages)),
        stages=stages,
        static_results=blank.static_results,
        cases=None if ran is None else ran.judgement.cases,
        image_digest=(ran.result.container.image_digest or None) if ran else None,
    )


def decide_verdict(
    stages: Sequence[StageReport], ran: JudgedRun | None, failure: Failure | None = None
) -> Verdict:
    """Return the verdict. An internal error or a cancellation takes precedence over findings."""
    if failure is not None:
        return Verdict.CANCELLED if failure.code == CANCELLED else Verdict.ERROR
    if ran is not None and ran.result.outcome.cause in _VERDICT_BY_CAUSE:
        return _VERDICT_BY_CAUSE[ran.result.outcome.cause]
    failed = any(stage.status is StageStatus.FAILED for stage in stages)
    return Verdict.FAILED if failed else Verdict.VALIDATED


def add_failure(failure: Failure, attempt: Attempt) -> Attempt:
    """Return the attempt with the failure. The verdict for the failure replaces any earlier verdict."""
    return replace(attempt, verdict=decide_verdict((), None, failure), error=failure)


def list_static_results(static: Sequence[StageReport]) -> tuple[StaticResult, ...]:
    """Return one result per static stage that ran."""
    return tuple(
        StaticResult(
            check=stage.name,
            passed=stage.status is not StageStatus.FAILED,
            details="; ".join(f.message for f in stage.findings[:5]) or "nothing found",
        )
        for stage in static
        if stage.status is not StageStatus.SKIPPED
    )


def _list_general_findings(ran: JudgedRun) -> list[Finding]:
    """Return the findings common to all kinds: unexplained failures, and limits that a pass reached."""
    outcome = ran.result.outcome
    explained = any(has_errors(findings) for findings in ran.judgement.stage_findings.values())
    findings: list[Finding] = []
    if not outcome.completed and not explained and outcome.cause not in _VERDICT_BY_CAUSE:
        findings.append(
            Finding(
                rule=f"sandbox.{outcome.cause}",
                category="runtime",
                message=f"The run ended with {outcome.cause.replace('_', ' ')}.",
                layer=Layer.RUNTIME,
            )
        )
    if outcome.completed and "limits_met" in outcome.evidence:
        findings.append(
            Finding(
                rule="sandbox.limit_met",
                category="resource",
                severity=Severity.WARNING,
                message="The code reached a memory, process, or disk limit, but its result is complete.",
                layer=Layer.RUNTIME,
            )
        )
    return findings


def _add_findings(stage: StageReport, added: Sequence[Finding]) -> StageReport:
    if not added:
        return stage
    findings = (*stage.findings, *added)
    return replace(stage, findings=findings, status=determine_status(findings))


def _limit_stage_findings(stages: Sequence[StageReport], left: int) -> tuple[StageReport, ...]:
    """Keep the first `left` findings of all stages, and limit the edits per stage. Keep the statuses."""
    kept = []
    for stage in stages:
        if stage.findings:
            stage = replace(stage, findings=limit_findings(stage.findings[:left]))  # noqa: PLW2901
        kept.append(stage)
        left -= len(stage.findings)
    return tuple(kept)


def _find_last_run_stage(stages: Sequence[StageReport]) -> str:
    ran = [stage.name for stage in stages if stage.status is not StageStatus.SKIPPED]
    return ran[-1] if ran else (stages[0].name if stages else "")
