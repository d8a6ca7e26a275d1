"""Concludes an attempt: merges its results into a report, writes its bundle, and records its verdict.

`model.merge` decides the verdict. A verdict is recorded durably before it is published.
"""

from __future__ import annotations

import asyncio
import platform
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

import structlog

from assayd import __version__
from assayd.aio import pause
from assayd.attempts.events import EventHub
from assayd.attempts.execution import Facts, FinishedAttempt, Job
from assayd.attempts.telemetry import collect_facts
from assayd.clock import Clock
from assayd.documents import (
    build_execution_document,
    build_limits_document,
    build_report_document,
    canonical,
    junit,
)
from assayd.documents.attempts import build_finished_body, build_state_body
from assayd.documents.submission import find_checked_texts
from assayd.errors import AssaydError, StoreError
from assayd.fair_queue import FairSemaphore
from assayd.findings.retry_context import PASSED
from assayd.model.attempt import (
    ATTESTATION,
    Attempt,
    Bundle,
    Failure,
    State,
    find_replaced_location,
    format_timestamp,
)
from assayd.model.finding import Finding
from assayd.model.merge import (
    JudgedRun,
    add_failure,
    is_quality_finding,
    list_static_results,
    merge_report,
    merge_stages,
)
from assayd.model.policy import NetworkMode
from assayd.model.records import AttemptEvent
from assayd.model.report import Report, StageReport, StageStatus, Verdict
from assayd.model.run import PolicyEvent, RunResult
from assayd.ports.artifacts import (
    ArtifactStore,
    Attester,
    BuildAttachments,
    ConcludedAttempt,
    build_no_attachments,
)
from assayd.store.jobs import DatabaseJobStore

log = structlog.get_logger()

T = TypeVar("T")

_RATED_VERDICTS = frozenset({Verdict.VALIDATED, Verdict.FAILED})

POLICY_RULES = "policy."
"""The prefix of the rules that the runtime policy reports."""
NETWORK_RULE = "policy.network"

LARGE_BYTES = 128 * 2**10
"""Larger results are judged and serialized in a thread, so that they don't block the event loop."""
LARGE_CASE_COUNT = 200
"""Reports with more cases are serialized in a thread, too."""

LARGE_PART_COUNT = 100
"""Results with more units, policy events and objects in records are judged in a thread, too."""

MAX_RECORDED_RULES = 50
"""The maximum number of rules of errors in an attempt's record. Its report contains all of them."""

NOTHING = b"null"
"""The execution document of an attempt without a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SerializedResult:
    """The results of an attempt as bytes: its two documents, and all files of its bundle by name."""

    report: bytes
    execution: bytes
    files: dict[str, bytes]
    facts: Facts = field(default_factory=Facts)


def is_large_result(result: RunResult) -> bool:
    """Return whether a result is so large that processing it takes long."""
    records = [record for unit in result.units for record in unit.results]
    parts = sum(1 + len(unit.events) for unit in result.units) + sum(r.count(b"{") for r in records)
    size = sum(map(len, records)) + sum(len(output.content) for output in result.outputs)
    return size > LARGE_BYTES or parts > LARGE_PART_COUNT


def _is_large_report(report: Report) -> bool:
    """Return whether a report takes long to write, because it has many cases or long findings."""
    if len(report.cases or ()) > LARGE_CASE_COUNT:
        return True
    texts = sum(len(f.message) + len(f.context or "") + len(f.snippet or "") for f in report.findings)
    return texts > LARGE_BYTES // 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ConclusionWriter:
    """A writer of reports and bundles. It signs them if there is an `attester`.

    `attachments` returns the additional files of an attempt that belongs to a chain.
    """

    artifacts: ArtifactStore
    clock: Clock
    attachments: BuildAttachments = build_no_attachments
    attester: Attester | None = None
    turns: FairSemaphore = field(default_factory=lambda: FairSemaphore(1))
    """The queue for the thread for large results. Several threads would compete with the event loop for the
    interpreter.
    """

    async def call_in_thread(self, attempt: Attempt, function: Callable[[], T]) -> T:
        """Call a function in a thread. Only one function runs at a time, and users take turns."""
        async with self.turns.hold(*attempt.flow, attempt.id):
            return await asyncio.to_thread(function)

    async def conclude(
        self,
        job: Job,
        static: tuple[StageReport, ...],
        ran: JudgedRun | None,
        failure: Failure | None,
    ) -> FinishedAttempt:
        """Merge all results into the report, write the bundle, and return the finished attempt.

        If the bundle can't be written, the attempt gets the verdict `error`.
        """
        report = _build_report(job, static, ran, failure, self.clock.now())
        for stage in report.stages[len(static) :]:
            job.publish_stage(stage)
        attempt = replace(
            job.attempt,
            verdict=report.verdict,
            cause=ran.result.outcome.cause.value if ran else None,
            rules=report.rules[:MAX_RECORDED_RULES],
            enforcement=job.policy.enforcement,
            approvable=job.policy.approvable and not job.validator.withheld(job.submission.payload),
            error=failure,
        )
        if _is_large_report(report) or (ran is not None and is_large_result(ran.result)):
            result = await self.call_in_thread(job.attempt, partial(_serialize_result, job, report, ran))
        else:
            result = _serialize_result(job, report, ran)
        await self._attach_chain_files(attempt, result)
        attempt = await self._write_bundle(attempt, result, ran, report, job)
        misses = tuple(f.rule for f in report.findings if f.is_error and is_statically_detectable(f, job))
        return FinishedAttempt(
            attempt=attempt,
            report=result.report,
            execution=result.execution,
            static_misses=misses,
            cases=report.cases or (),
            refusals=() if ran is not None else tuple(f.message for f in report.findings if f.is_error),
            facts=result.facts,
        )

    async def conclude_unstartable(self, attempt: Attempt, document: bytes, failure: Failure) -> Attempt:
        """Write the bundle of an attempt that can't be started, and return it with the verdict `error`.

        Its kind or profile no longer exists.
        """
        ended = replace(add_failure(failure, attempt), cause=None)
        report = Report(
            attempt_id=attempt.id,
            kind=attempt.kind,
            verdict=ended.verdict or Verdict.ERROR,
            stage_reached="",
            stages=(),
            input_digest=attempt.input_digest,
            validated_at=self.clock.now(),
        )
        written = canonical(build_report_document(report))
        files = _build_bundle_files(attempt, document, written, NOTHING)
        result = SerializedResult(report=written, execution=NOTHING, files=files)
        return await self._write_bundle(ended, result, None, report)

    async def _attach_chain_files(self, attempt: Attempt, result: SerializedResult) -> None:
        """Add copies of the chain's files to the bundle of its attempt. An error is only logged."""
        if attempt.verdict is None:
            return
        try:
            result.files.update(await self.attachments(attempt, attempt.verdict))
        except AssaydError as trouble:
            log.error("bundle.not_attached", attempt_id=attempt.id, code=trouble.code)

    async def _write_bundle(
        self,
        attempt: Attempt,
        result: SerializedResult,
        ran: JudgedRun | None,
        report: Report,
        job: Job | None = None,
    ) -> Attempt:
        try:
            if self.attester is not None:
                concluded = _build_concluded_attempt(attempt, result, ran, report, job)
                result.files[ATTESTATION] = await self.attester.attest(concluded)
            written = await self.artifacts.write(_build_bundle(attempt, result.files, ran))
        except AssaydError as trouble:
            log.error(
                "bundle.write_failed", attempt_id=attempt.id, code=trouble.code, message=trouble.message
            )
            # A pass without its record isn't a pass.
            return add_failure(Failure(code=trouble.code, message=trouble.message), attempt)
        return replace(attempt, bundle=written.location, artifacts=written.artifacts)


def _build_concluded_attempt(
    attempt: Attempt, result: SerializedResult, ran: JudgedRun | None, report: Report, job: Job | None
) -> ConcludedAttempt:
    prepared = job.prepared if job is not None else None
    return ConcludedAttempt(
        attempt=attempt,
        policy_digest=report.policy_digest,
        enforcement=report.enforcement,
        container=ran.result.container if ran is not None else None,
        limits=report.effective_limits,
        findings=Counter(str(finding.severity) for finding in report.findings),
        cases=None if report.cases is None else Counter(str(case.status) for case in report.cases),
        score=report.score,
        validated_at=report.validated_at,
        files=dict(result.files),
        sources=find_checked_texts(job.validator, prepared)
        if job is not None and prepared is not None
        else (),
    )


def is_statically_detectable(finding: Finding, job: Job) -> bool:
    """Return whether the static stages could have found a policy violation.

    They can't know a connection's host.
    """
    listed = job.policy.network.mode is NetworkMode.ALLOWLIST
    return finding.rule.startswith(POLICY_RULES) and not (listed and finding.rule == NETWORK_RULE)


def _build_report(
    job: Job,
    static: tuple[StageReport, ...],
    ran: JudgedRun | None,
    failure: Failure | None,
    now: datetime,
) -> Report:
    stages = merge_stages(
        static or _build_skipped_stages(job),
        job.validator.runtime_stages,
        ran,
        most_findings=job.limits.findings,
    )
    blank = Report(
        attempt_id=job.attempt.id,
        kind=job.attempt.kind,
        verdict=Verdict.ERROR,
        stage_reached="",
        stages=stages,
        static_results=list_static_results(static),
        effective_limits=build_limits_document(job.limits, job.policy.network),
        clamped=job.policy.clamped,
        input_digest=job.submission.input_digest,
        policy_digest=job.policy.digest,
        enforcement=job.policy.enforcement,
        validated_at=now,
    )
    report = replace(merge_report(blank, stages, ran, failure), refused_imports=_collect_refused_imports(ran))
    if (context := _build_attempt_retry_context(job, report)) is not None:
        report = replace(report, retry_context=_truncate(context, job.limits.retry_context_bytes))
    if ran is not None and report.verdict in _RATED_VERDICTS:
        report = replace(report, feedback=ran.judgement.facts)
    return _add_score(job, _add_rating(job, report), ran)


def _build_attempt_retry_context(job: Job, report: Report) -> str | None:
    """Return the text for a model's next try: about a failure, or about a pass that proves little.

    The result is None if there is neither, or if the verdict is `error` or `cancelled`.
    """
    if report.verdict not in _RATED_VERDICTS:
        return None
    failed = {stage.name: stage for stage in report.stages if stage.status is StageStatus.FAILED}
    found = [
        finding
        for stage in report.stages
        for finding in stage.findings
        if stage.name in failed or is_quality_finding(finding)
    ]
    if not failed and not found:
        return None
    return job.validator.retry_context(found, next(iter(failed), PASSED), job.policy)


def _collect_refused_imports(ran: JudgedRun | None) -> tuple[PolicyEvent, ...]:
    """Return the distinct imports of a run that the policy refuses."""
    events = [event for unit in ran.result.units for event in unit.events] if ran is not None else []
    return tuple(dict.fromkeys(event for event in events if event.kind == "import" and not event.allowed))


def _add_rating(job: Job, report: Report) -> Report:
    """Add the kind's rating of a validated or failed submission, if it has one.

    Only a validated submission gets a confidence.
    """
    if report.verdict not in _RATED_VERDICTS:
        return report
    rating = job.validator.rate(job.submission.payload, report.findings)
    if rating is None:
        return report
    confidence = rating.confidence if report.verdict is Verdict.VALIDATED else None
    return replace(report, confidence=confidence, feedback=rating.feedback)


def _add_score(job: Job, report: Report, ran: JudgedRun | None) -> Report:
    """Add the basis of the kind's scores and, for a validated or failed submission, its score.

    The score is 0 if the run has none. For a kind without scores, add nothing.
    """
    integrity = job.validator.integrity(job.submission.payload)
    if integrity is None or report.verdict not in _RATED_VERDICTS:
        return replace(report, integrity=integrity)
    score = ran.judgement.score if ran is not None else None
    return replace(report, integrity=integrity, score=0.0 if score is None else score)


def _truncate(text: str, most_bytes: int) -> str:
    encoded = text.encode("utf-8", "replace")
    return text if len(encoded) <= most_bytes else encoded[:most_bytes].decode("utf-8", "ignore")


def _build_skipped_stages(job: Job) -> tuple[StageReport, ...]:
    return tuple(StageReport(name=s.name, status=StageStatus.SKIPPED) for s in job.validator.stages)


def _serialize_result(job: Job, report: Report, ran: JudgedRun | None) -> SerializedResult:
    result = ran.result if ran else None
    done = build_execution_document(result, limits=job.limits, network=job.policy.network) if result else None
    written, execution = canonical(build_report_document(report)), canonical(done)
    files = _build_bundle_files(job.attempt, job.submission.document, written, execution, result)
    if report.cases is not None:
        files[f"junit_{format_timestamp(job.attempt.created_at)}.xml"] = junit(report)
    facts = collect_facts(report, result, job.limits)
    return SerializedResult(report=written, execution=execution, files=files, facts=facts)


def _build_bundle_files(
    attempt: Attempt, document: bytes, report: bytes, execution: bytes, result: RunResult | None = None
) -> dict[str, bytes]:
    """Return the files of the bundle by name, as listed in docs/result-contract.md."""
    moment = format_timestamp(attempt.created_at)
    files = {
        f"stdout_{moment}.log": _join_output(result, "stdout"),
        f"stderr_{moment}.log": _join_output(result, "stderr"),
        f"execution_{moment}.json": execution,
        f"validation_{moment}.json": report,
        f"submission_{moment}.json": document,
    }
    for output in result.outputs if result else ():
        files[f"files/{output.name}"] = output.content
    return files


def _join_output(result: RunResult | None, stream: str) -> bytes:
    return "".join(getattr(unit, stream).text() for unit in result.units).encode() if result else b""


def _build_bundle(attempt: Attempt, files: dict[str, bytes], ran: JudgedRun | None) -> Bundle:
    cut = {f"files/{o.name}" for o in ran.result.outputs if o.truncated} if ran else set()
    for stream in ("stdout", "stderr"):
        if ran and any(getattr(unit, stream).truncated for unit in ran.result.units):
            cut |= {name for name in files if name.startswith(stream)}
    return Bundle(
        attempt_id=attempt.id,
        run_number=max(attempt.run_number, 1),
        created_at=attempt.created_at,
        category=attempt.labels.get("category", attempt.kind),
        platform=attempt.labels.get("platform", "default"),
        files=files,
        truncated=frozenset(cut),
        manifest={
            "assayd": __version__,
            "attempt_id": attempt.id,
            "input_digest": attempt.input_digest,
            "image_digest": ran.result.container.image_digest if ran else None,
            "python": {"daemon": platform.python_version(), "image": _get_image_python(ran)},
        },
    )


def _get_image_python(ran: JudgedRun | None) -> str | None:
    return ran.result.container.python if ran else None


RECORD_RETRY_DELAY_S = 1.0
"""The seconds before the next try if the store can't record a verdict."""


def ended(attempt: Attempt, at: datetime, timings_s: Mapping[str, float] | None = None) -> Attempt:
    """Return an attempt with a verdict as finished. Avoid negative durations if the clock was set back."""
    total_s = max(0.0, (at - attempt.created_at).total_seconds())
    timings_s = {**(timings_s or {}), "total": total_s}
    return replace(attempt, state=State.FINISHED, finished_at=at, timings_s=timings_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRecorder:
    """A recorder of verdicts. Once `stopping` is set, it no longer retries if the store fails."""

    jobs: DatabaseJobStore
    artifacts: ArtifactStore
    clock: Clock
    hub: EventHub
    stopping: asyncio.Event

    async def record(self, finished: FinishedAttempt, timings_s: Mapping[str, float]) -> FinishedAttempt:
        """Record a verdict durably, then publish it, and return the recorded verdict.

        If another run's verdict was recorded first, return that one, without documents.
        """
        attempt = ended(finished.attempt, self.clock.now(), timings_s)
        events = self._build_last_events(attempt)
        recorded = await self._write_verdict(attempt, events, finished)
        for event in events if recorded is attempt else self._build_last_events(recorded):
            self.hub.deliver(event)
        await self._remove_superseded(recorded)
        kept = replace(
            finished, attempt=recorded, cases=(), refusals=()
        )  # recorded, and large values are in it
        if recorded.bundle != attempt.bundle:  # another run's verdict was first, and has its own documents
            return replace(kept, report=None, execution=None)
        return kept

    def _build_last_events(self, attempt: Attempt) -> tuple[AttemptEvent, ...]:
        return self.hub.number_events(
            attempt.id,
            attempt.run_number,
            ("state", build_state_body(attempt.state)),
            ("finished", build_finished_body(attempt)),
        )

    async def _write_verdict(
        self, attempt: Attempt, last: tuple[AttemptEvent, ...], finished: FinishedAttempt
    ) -> Attempt:
        """Write the verdict, and return the attempt as recorded. Retry while the store's error is temporary.

        Until the verdict is written, the attempt isn't finished. If the verdict can't be written, the attempt
        gets the verdict `error`, and the next run of the daemon recovers it.
        """
        while True:
            try:
                events = (*self.hub.list_durable_events(attempt.id), *last)
                first = await self.jobs.finish(attempt, events, finished.cases, finished.refusals)
                recorded = attempt if first else await self.jobs.get(attempt.id)
            except StoreError as trouble:
                log.critical("verdict.not_recorded", code=trouble.code)
                if self.stopping.is_set() or not trouble.retryable:
                    return add_failure(Failure(code=trouble.code, message=trouble.message), attempt)
                await pause(RECORD_RETRY_DELAY_S, unless=self.stopping)
            else:
                return recorded or attempt

    async def _remove_superseded(self, attempt: Attempt) -> None:
        """Remove the bundle of the attempt's earlier run, if that run was lost and repeated.

        If this fails, a later sweep removes the files.
        """
        earlier = find_replaced_location(attempt.bundle) if attempt.bundle else None
        if earlier is not None:
            try:
                await self.artifacts.remove(earlier)
            except StoreError as trouble:
                log.warning("bundle.not_removed", code=trouble.code, bundle=earlier)
