"""Telemetry for operators: the log line and counters of a finished attempt, and gauges of disk and backlog.

This module decides the content; `log` defines the format of the lines, and `metrics` the names of the
metrics.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import NoReturn

import structlog

from assayd.attempts.execution import Facts, FinishedAttempt
from assayd.documents.base import to_milliseconds
from assayd.errors import StoreError
from assayd.metrics import Metrics, get_labelled_series
from assayd.model.finding import Severity
from assayd.model.merge import would_fail
from assayd.model.policy import Enforcement
from assayd.model.report import Report, StageStatus
from assayd.model.run import Limits, RunResult, UnitResult
from assayd.ports.tracing import Attribute
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore
from assayd.store.outbox import Outbox

log = structlog.get_logger()

MAX_LOGGED_RULES = 10
"""The maximum number of rules in an attempt's log line. Its report contains all of them."""


_LOGGED_FACTS = tuple(
    field.name for field in fields(Facts) if field.name not in {"stages", "cpu_s", "limit_shares"}
)
"""The names of the facts that the log line contains unchanged."""


def collect_facts(report: Report, result: RunResult | None, limits: Limits) -> Facts:
    """Return the facts about an attempt for operators, without any text written by guest code."""
    facts = Facts(
        stage_reached=report.stage_reached,
        errors=sum(finding.severity is Severity.ERROR for finding in report.findings),
        warnings=sum(finding.severity is Severity.WARNING for finding in report.findings),
        policy_digest=report.policy_digest,
        would_fail=would_fail(report.findings) if report.enforcement is Enforcement.REPORT else None,
        image_digest=report.image_digest,
        stages=tuple(
            (stage.name, stage.duration_s)
            for stage in report.stages
            if stage.status is not StageStatus.SKIPPED
        ),
    )
    return facts if result is None else _add_run_facts(facts, result, limits)


def _add_run_facts(facts: Facts, result: RunResult, limits: Limits) -> Facts:
    units = result.units
    exit_code, signal = result.exit
    return replace(
        facts,
        exit_code=exit_code,
        signal=signal,
        cpu_s=sum(unit.usage.cpu_s for unit in units),
        peak_memory_bytes=result.peak_memory_bytes,
        stdout_bytes=sum(unit.stdout.total_bytes for unit in units),
        stderr_bytes=sum(unit.stderr.total_bytes for unit in units),
        container=result.container.id,
        limit_shares=tuple(_iter_limit_shares(result, limits)),
        denied_imports=_count_denied(units, "import"),
        denied_connections=_count_denied(units, "network"),
    )


def _iter_limit_shares(result: RunResult, limits: Limits) -> Iterator[tuple[str, float]]:
    yield "time", result.wall_s / limits.timeout_s
    if result.peak_memory_bytes is not None:
        yield "memory", result.peak_memory_bytes / limits.memory_bytes
    if not result.units:
        return
    most: dict[str, tuple[float, Callable[[UnitResult], float]]] = {
        "unit time": (limits.unit_timeout_s, lambda unit: unit.usage.wall_s),
        "output": (
            limits.output_read_bytes,
            lambda unit: max(unit.stdout.total_bytes, unit.stderr.total_bytes),
        ),
        "disk": (limits.work_bytes, lambda unit: unit.usage.work_bytes),
        "files": (limits.work_files, lambda unit: unit.usage.work_files),
    }
    for name, (limit, used) in most.items():
        yield name, max(used(unit) for unit in result.units) / limit


def _count_denied(units: Sequence[UnitResult], kind: str) -> int:
    """Return the number of distinct accesses of a kind that the policy refused. Units repeat accesses."""
    return len({e for unit in units for e in unit.events if e.kind == kind and not e.allowed})


def build_summary_line(finished: FinishedAttempt) -> dict[str, object]:
    """Return the fields of the log line about a finished attempt."""
    attempt, facts = finished.attempt, finished.facts
    return {
        "verdict": attempt.verdict.value if attempt.verdict else None,
        "cause": attempt.cause,
        "error": attempt.error.code if attempt.error else None,
        "rules": list(attempt.rules[:MAX_LOGGED_RULES]),
        **{name: getattr(facts, name) for name in _LOGGED_FACTS},
        "cpu_ms": None if facts.cpu_s is None else to_milliseconds(facts.cpu_s),
        "warm": attempt.warm,
        "run_number": attempt.run_number,
        "attempt_number": attempt.attempt_number,
        "batch_id": attempt.batch_id,
        "parent_id": attempt.parent_id,
        "replay_of": attempt.replay_of,
        "labels": dict(attempt.labels),
        "uid": attempt.peer.uid,
        "pid": attempt.peer.pid,
        "input_digest": attempt.input_digest,
        "bundle": attempt.bundle,
        **{f"{step}_ms": to_milliseconds(took_s) for step, took_s in attempt.timings_s.items()},
    }


def build_span_attributes(finished: FinishedAttempt) -> dict[str, Attribute]:
    """Return the final attributes of an attempt's span, without any user's text."""
    attempt, facts = finished.attempt, finished.facts
    return {
        "attempt_id": attempt.id,
        "attempt_number": attempt.attempt_number,
        "verdict": attempt.verdict.value if attempt.verdict else None,
        "cause": attempt.cause,
        "run_number": attempt.run_number,
        "warm": attempt.warm,
        "errors": facts.errors,
        "warnings": facts.warnings,
        "cpu_s": facts.cpu_s,
        "peak_memory_bytes": facts.peak_memory_bytes,
    }


def count_attempt(metrics: Metrics, finished: FinishedAttempt) -> None:
    """Update the counters for a finished attempt."""
    attempt, facts, kind = finished.attempt, finished.facts, finished.attempt.kind
    verdict = attempt.verdict.value if attempt.verdict else "none"
    get_labelled_series(metrics.attempts, kind, verdict, attempt.cause or "none").inc()
    if facts.would_fail is not None:
        get_labelled_series(metrics.attempts_reported, kind, "yes" if facts.would_fail else "no").inc()
    for rule in finished.static_misses:
        get_labelled_series(metrics.static_misses, kind, rule).inc()
    if attempt.warm is not None:
        get_labelled_series(metrics.leases, "warm" if attempt.warm else "cold").inc()
    get_labelled_series(metrics.denied_imports, kind).inc(facts.denied_imports)
    get_labelled_series(metrics.denied_connections, kind).inc(facts.denied_connections)
    for step, took_s in attempt.timings_s.items():
        get_labelled_series(metrics.attempt_duration, step).observe(took_s)
    for limit, share in facts.limit_shares:
        get_labelled_series(metrics.limit_use, limit).observe(share)
    for stage, took_s in facts.stages:
        get_labelled_series(metrics.stage_duration, kind, stage).observe(took_s)


def register_disk_gauges(metrics: Metrics, state_dir: Path) -> None:
    """Make the disk gauges read the disk's current state at each scrape."""
    metrics.disk_free.set_function(lambda: shutil.disk_usage(state_dir).free)
    metrics.disk_size.set_function(lambda: shutil.disk_usage(state_dir).total)
    metrics.database_bytes.set_function(lambda: sum(map(_get_file_size, state_dir.glob("assayd.db*"))))


def _get_file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # SQLite creates and deletes the write-ahead log
        return 0


GAUGE_UPDATE_INTERVAL_S = 30.0


async def update_gauges_periodically(
    metrics: Metrics, jobs: DatabaseJobStore, batches: DatabaseBatchStore, outbox: Outbox
) -> NoReturn:
    """Update the gauges of waiting items, waiting messages and bundles periodically."""
    while True:
        try:
            await count(metrics, jobs, batches, outbox)
        except StoreError as trouble:
            log.error("backlog.not_counted", code=trouble.code)
        await asyncio.sleep(GAUGE_UPDATE_INTERVAL_S)


async def count(
    metrics: Metrics, jobs: DatabaseJobStore, batches: DatabaseBatchStore, outbox: Outbox
) -> None:
    """Set the gauges of waiting items, waiting messages and bundle bytes.

    Raises: StoreError, if the store fails.
    """
    metrics.batch_items_waiting.set(await batches.count_unfinished_items())
    metrics.webhook_messages.set((await outbox.count_undelivered()).count)
    metrics.bundle_bytes.set(sum(usage.disk_bytes for usage in (await jobs.usage()).values()))
