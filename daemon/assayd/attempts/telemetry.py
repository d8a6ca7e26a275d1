"""What operators see of the daemon's work: the line and the counts of a finished attempt, and its disk.

Decides what is told. The form of a line is `log`'s, the names of the metrics are `metrics`'.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from assayd.attempts.attempt_run import Facts, Finished
from assayd.metrics import Metrics

Document = Mapping[str, object]
RULES_TOLD = 10
"""How many rules the line of an attempt names; its report has them all."""


def facts_of(report: Document, execution: Document | None) -> Facts:
    """Return what operators are told of an attempt's two documents; what the guest wrote is not among it."""
    ran = execution or {}
    return Facts(
        told={**_told_by_report(report), **_told_by_execution(ran)},
        stages=tuple(
            (str(stage["name"]), cast("float", stage["duration_ms"]) / 1000)
            for stage in _rows(report, "stages")
            if stage["status"] != "skipped"
        ),
        denied_imports=len(_rows(ran, "import_violations")),
        denied_connections=sum(row["blocked"] is True for row in _rows(ran, "network_violations")),
    )


def _told_by_report(report: Document) -> dict[str, object]:
    findings = _rows(report, "findings")
    return {
        "stage_reached": report.get("stage_reached"),
        "errors": sum(finding["severity"] == "error" for finding in findings),
        "warnings": sum(finding["severity"] == "warning" for finding in findings),
        "policy_digest": report.get("policy_digest"),
        "image_digest": report.get("image_digest"),
    }


def _told_by_execution(execution: Document) -> dict[str, object]:
    told = ("exit_code", "signal", "cpu_ms", "peak_memory_bytes", "stdout_bytes", "stderr_bytes")
    container = cast("Document", execution.get("container") or {})
    return {**{key: execution.get(key) for key in told}, "container": container.get("id")}


def summary_line(finished: Finished) -> dict[str, object]:
    """Return everything that an operator asks about one attempt, as the keys of one line of the log.

    Durations are milliseconds.
    """
    attempt, facts = finished.attempt, finished.facts
    return {
        "verdict": attempt.verdict.value if attempt.verdict else None,
        "cause": attempt.cause,
        "error": attempt.error.code if attempt.error else None,
        "rules": list(attempt.rules[:RULES_TOLD]),
        **facts.told,
        "denied_imports": facts.denied_imports,
        "denied_connections": facts.denied_connections,
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
        **{f"{step}_ms": round(took_s * 1000, 3) for step, took_s in attempt.timings_s.items()},
    }


def count_attempt(metrics: Metrics, finished: Finished) -> None:
    """Count a finished attempt."""
    attempt, facts, kind = finished.attempt, finished.facts, finished.attempt.kind
    verdict = attempt.verdict.value if attempt.verdict else "none"
    metrics.attempts.labels(kind, verdict, attempt.cause or "none").inc()
    for rule in finished.static_misses:
        metrics.static_misses.labels(kind, rule).inc()
    if attempt.warm is not None:
        metrics.leases.labels("warm" if attempt.warm else "cold").inc()
    metrics.denied_imports.labels(kind).inc(facts.denied_imports)
    metrics.denied_connections.labels(kind).inc(facts.denied_connections)
    for step, took_s in attempt.timings_s.items():
        metrics.attempt_duration.labels(step).observe(took_s)
    for stage, took_s in facts.stages:
        metrics.stage_duration.labels(kind, stage).observe(took_s)


def watch_disk(metrics: Metrics, state_dir: Path) -> None:
    """Let the gauges of the disk show what it holds whenever they are read."""
    metrics.disk_free.set_function(lambda: shutil.disk_usage(state_dir).free)
    metrics.disk_size.set_function(lambda: shutil.disk_usage(state_dir).total)
    metrics.database_bytes.set_function(lambda: sum(map(_size, state_dir.glob("assayd.db*"))))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # the write-ahead log comes and goes
        return 0


def _rows(document: Document, key: str) -> Sequence[Mapping[str, object]]:
    return cast("Sequence[Mapping[str, object]]", document.get(key) or ())
