"""The log line of a finished attempt, and its counters."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from assayd.attempts.execution import FinishedAttempt
from assayd.attempts.telemetry import (
    build_summary_line,
    collect_facts,
    count,
    count_attempt,
    register_disk_gauges,
)
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt, State
from assayd.model.finding import Finding, Severity
from assayd.model.report import Report, StageReport, StageStatus, Verdict
from assayd.model.run import (
    CapturedOutput,
    Cause,
    ContainerFacts,
    Limits,
    PolicyEvent,
    ResourceUsage,
    RunEndReason,
    RunOutcome,
    RunResult,
    UnitResult,
)
from assayd.model.submission import Peer
from assayd.store.outbox import Outbox
from support.daemons.small_daemon import small_daemon

START = datetime(2026, 5, 4, 10, 20, 30, tzinfo=UTC)
WRITTEN = b"written by the guest"
REFUSED = PolicyEvent(kind="network", detail="[::1]:80", allowed=False, enforced=True, line=4)
FOUND = (
    Finding(rule="runtime.exception", category="runtime", message=WRITTEN.decode()),
    Finding(rule="quality.empty", category="quality", message="", severity=Severity.WARNING),
)


def unit(status: int, cause: Cause) -> UnitResult:
    return UnitResult(
        name="path",
        wait_status=status,
        stdout=CapturedOutput(head=WRITTEN, total_bytes=len(WRITTEN)),
        usage=ResourceUsage(cpu_s=0.0015),
        events=(REFUSED, PolicyEvent(kind="import", detail="pathlib", allowed=True, enforced=True, line=1)),
        outcome=RunOutcome(cause=cause),
    )


RUN = RunResult(
    units=(unit(256, Cause.EXITED_NONZERO), unit(0, Cause.COMPLETED)),
    end=RunEndReason.FINISHED,
    container=ContainerFacts(id="c0ffee"),
    peak_memory_bytes=30 * 2**20,
    outcome=RunOutcome(cause=Cause.EXITED_NONZERO),
)

LIMITS = Limits(timeout_s=10, unit_timeout_s=5, memory_bytes=60 * 2**20, max_processes=1)


def finished(verdict: Verdict, *, result: RunResult | None = RUN, **more: object) -> FinishedAttempt:
    given: dict[str, object] = {
        "id": "01JTC8ZK5V0000000000000001",
        "kind": "extractor",
        "policy": "extractor",
        "input_digest": "ab",
        "created_at": START,
        "peer": Peer(uid=1000, gid=1000, pid=7),
        "labels": {"category": "reports"},
        "state": State.FINISHED,
        "verdict": verdict,
        "cause": result.outcome.cause.value if result else None,
        "timings_s": {"queued": 0.001, "run": 0.25, "total": 0.5},
        "rules": ("runtime.exception",),
        **more,
    }
    attempt = Attempt(**given)  # type: ignore[arg-type]
    stages = (
        StageReport(name="sandbox", status=StageStatus.FAILED, findings=FOUND, duration_s=0.2),
        StageReport(name="quality", status=StageStatus.SKIPPED),
    )
    report = Report(
        attempt_id=attempt.id, kind="extractor", verdict=verdict, stage_reached="sandbox", stages=stages
    )
    return FinishedAttempt(
        attempt=attempt, report=b"", execution=b"", facts=collect_facts(report, result, LIMITS)
    )


def test_line_of_an_attempt_answers_what_an_operator_asks() -> None:
    line = build_summary_line(finished(Verdict.FAILED, warm=True, batch_id="nightly"))

    assert line["verdict"] == "failed"
    assert (line["cause"], line["exit_code"], line["stage_reached"]) == ("exited_nonzero", 1, "sandbox")
    assert (line["errors"], line["warnings"], line["rules"]) == (1, 1, ["runtime.exception"])
    assert (line["uid"], line["pid"], line["batch_id"], line["warm"]) == (1000, 7, "nightly", True)
    assert (line["run_ms"], line["total_ms"], line["cpu_ms"]) == (250.0, 500.0, 3.0)
    assert (line["peak_memory_bytes"], line["denied_connections"]) == (31457280, 1)
    assert line["container"] == "c0ffee"


def test_memory_that_was_not_measured_is_no_share_of_its_limit() -> None:
    measured, unmeasured = (
        finished(Verdict.FAILED, result=replace(RUN, peak_memory_bytes=peak)) for peak in (2**20, None)
    )
    assert "memory" in dict(measured.facts.limit_shares)
    assert "memory" not in dict(unmeasured.facts.limit_shares)
    assert build_summary_line(unmeasured)["peak_memory_bytes"] is None


def test_line_of_an_attempt_holds_nothing_that_the_guest_wrote() -> None:
    line = build_summary_line(finished(Verdict.FAILED))

    assert line["stdout_bytes"] == 2 * len(WRITTEN)
    assert WRITTEN.decode() not in json.dumps(line)


def test_line_of_a_refusal_has_the_same_keys() -> None:
    refused = build_summary_line(finished(Verdict.FAILED, result=None))

    assert refused.keys() == build_summary_line(finished(Verdict.FAILED)).keys()
    assert (refused["container"], refused["cpu_ms"]) == (None, None)


def test_attempt_is_counted_by_verdict_cause_stage_and_denial() -> None:
    metrics = Metrics()

    count_attempt(metrics, finished(Verdict.FAILED, warm=False))

    text = metrics.render_metrics().decode()
    assert 'assayd_attempts_total{cause="exited_nonzero",kind="extractor",verdict="failed"} 1.0' in text
    assert 'assayd_leases_total{start="cold"} 1.0' in text
    assert 'assayd_denied_connections_total{kind="extractor"} 1.0' in text
    assert 'assayd_denied_imports_total{kind="extractor"} 0.0' in text
    assert 'assayd_attempt_duration_seconds_count{stage="run"} 1.0' in text
    assert 'assayd_stage_duration_seconds_count{kind="extractor",stage="sandbox"} 1.0' in text
    assert 'stage="quality"' not in text  # it was skipped


def test_use_of_each_limit_is_counted_of_what_was_run() -> None:
    metrics = Metrics()

    count_attempt(metrics, finished(Verdict.FAILED))
    count_attempt(metrics, finished(Verdict.FAILED, result=None))

    text = metrics.render_metrics().decode()
    assert 'assayd_limit_use_ratio_bucket{le="0.4",limit="memory"} 0.0' in text
    assert 'assayd_limit_use_ratio_bucket{le="0.5",limit="memory"} 1.0' in text
    counted = {line.partition('limit="')[2].partition('"')[0] for line in text.splitlines()} - {""}
    assert counted == {"time", "unit time", "memory", "output", "disk", "files"}


def test_disk_is_measured_when_it_is_asked_for(tmp_path: Path) -> None:
    metrics = Metrics()
    register_disk_gauges(metrics, tmp_path)
    (tmp_path / "assayd.db").write_bytes(b"12345")
    (tmp_path / "assayd.db-wal").write_bytes(b"678")

    text = metrics.render_metrics().decode()

    assert "assayd_database_bytes 8.0" in text
    free = next(line for line in text.splitlines() if line.startswith("assayd_disk_free_bytes "))
    assert float(free.split()[1]) > 0


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_is_counted(verdict: Verdict) -> None:
    metrics = Metrics()

    count_attempt(metrics, finished(verdict, result=None))

    assert (
        f'cause="none",kind="extractor",verdict="{verdict.value}"}} 1.0' in metrics.render_metrics().decode()
    )


async def test_gauges_show_stored_bundles_and_nothing_that_waits(tmp_path: Path) -> None:
    metrics = Metrics()
    async with small_daemon(tmp_path) as daemon:
        await daemon.finished(await daemon.accept())
        await count(metrics, daemon.jobs, daemon.batch_store, Outbox(daemon.jobs.access))
        stored = sum(usage.disk_bytes for usage in (await daemon.jobs.usage()).values())
    values = metrics.render_metrics().decode()
    assert stored > 0
    assert f"assayd_bundle_bytes {float(stored)}" in values
    assert "assayd_batch_items_waiting 0.0" in values
    assert "assayd_webhook_messages_waiting 0.0" in values


async def test_oldest_attempt_is_among_those_that_wait_and_those_under_way(tmp_path: Path) -> None:
    async with small_daemon(tmp_path) as daemon:
        assert daemon.scheduler.get_oldest_acceptance_time() is None
        daemon.checks.open.clear()
        first = await daemon.accept()
        await daemon.accept("x = 2")
        assert daemon.scheduler.get_oldest_acceptance_time() == first.created_at
        daemon.checks.open.set()
