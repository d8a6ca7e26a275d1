"""The daemon's metrics, in a separate registry.

Defines names, labels and buckets; the parts count. Labels come from closed sets only: a submission can't make
a new time series.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from assayd import __version__

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Media type of the text from `render`."""
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)


_Metric = TypeVar("_Metric", Counter, Histogram)
_MOST_LABELLED = 4096


@lru_cache(_MOST_LABELLED)
def labelled(metric: _Metric, *labels: str) -> _Metric:
    """Return a metric's time series of these labels, looked up once: that takes as long as counting."""
    return metric.labels(*labels)


class Metrics:
    """All metrics of one daemon."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(namespace="assayd", registry=self.registry)
        self._gauge("build_info", "Version of the running daemon.", "version").labels(__version__).set(1)
        self.policies_stale = self._gauge(
            "policies_stale", "1 while the policy files can't be loaded, so that older policies stay in use."
        )
        self.ready = self._gauge("ready", "1 while attempts are accepted.")
        self._attempts()
        self._containers()
        self._surroundings()

    def _attempts(self) -> None:
        self.accepted = self._counter("attempts_accepted", "Accepted attempts.", "kind")
        self.attempts = self._counter("attempts", "Finished attempts.", "kind", "verdict", "cause")
        self.attempts_reported = self._counter(
            "attempts_reported",
            "Attempts under report-only policies, by whether enforcement would fail them.",
            "kind",
            "would_fail",
        )
        self.under_way = self._gauge("attempts_under_way", "Attempts without a verdict.", "state")
        self.queue_depth = self._gauge("queue_depth", "Attempts in the queue.")
        self.batch_items_waiting = self._gauge(
            "batch_items_waiting", "Items of unfinished batches without a verdict."
        )
        self.oldest_attempt = self._gauge(
            "oldest_attempt_seconds", "Age of the oldest attempt without a verdict; 0 if there is none."
        )
        self.queue_bytes = self._gauge("queue_bytes", "Submissions held in memory.")
        self.attempt_duration = self._histogram(
            "attempt_duration_seconds", "Time of attempts, by step.", "stage"
        )
        self.stage_duration = self._histogram(
            "stage_duration_seconds", "Time of a kind's stages.", "kind", "stage"
        )
        self.limit_use = self._histogram(
            "limit_use_ratio",
            "Share of a limit that attempts used; 1 is all of it.",
            "limit",
            buckets=_SHARES,
        )
        self.static_misses = self._counter(
            "static_misses", "Runs that failed with a fault that static stages missed.", "kind", "rule"
        )
        self.denied_imports = self._counter("denied_imports", "Imports refused at run time.", "kind")
        self.denied_connections = self._counter(
            "denied_connections", "Connections of submitted code that the policy refused.", "kind"
        )
        self.webhook_tries = self._counter(
            "webhook_tries", "Deliveries of webhook messages, by result.", "outcome"
        )
        self.webhook_messages = self._gauge(
            "webhook_messages_waiting", "Undelivered webhook messages with at least one failed delivery."
        )
        self.repairs = self._counter("repairs", "Finished repairs.", "kind", "provider", "outcome")
        self.repair_fixes = self._counter(
            "repair_fixes",
            "Fixes, by number in the repair and verdict.",
            "kind",
            "provider",
            "number",
            "verdict",
        )
        self.repair_duration = self._histogram(
            "repair_duration_seconds", "Time from the failure to the repaired attempt.", "kind", "provider"
        )
        self.repair_fix_duration = self._histogram(
            "repair_fix_duration_seconds", "Time from a failure to its fix.", "kind", "provider"
        )
        self.provider_tokens = self._counter(
            "provider_tokens",
            "Tokens of requests to providers and of their replies.",
            "kind",
            "provider",
            "part",
        )

    def _containers(self) -> None:
        self.engine_info = self._gauge("engine_info", "The engine in use.", "kind", "version")
        self.templates = self._gauge("templates", "1 while containers are cloned from templates.")
        self.leases = self._counter("leases", "Containers leased to runs.", "start")
        self.containers = self._gauge("containers", "Existing containers.", "state")
        self.idle_containers = self._gauge("idle_containers", "Idle containers.", "pool_key", "image")
        self.refill_seconds = self._gauge(
            "refill_seconds", "Recent time to create a container.", "pool_key", "image"
        )
        self.engine_call = self._histogram(
            "engine_call_duration_seconds", "Time of calls to the container engine.", "call"
        )
        self.engine_errors = self._counter(
            "engine_errors", "Failed calls to the container engine.", "call", "code"
        )
        self.egress_accesses = self._counter(
            "egress_accesses", "Hosts that submitted code requested, by result.", "rule"
        )
        self.egress_bytes = self._counter(
            "egress_bytes", "Bytes of submitted code's connections.", "direction"
        )

    def _surroundings(self) -> None:
        self.requests = self._counter("requests", "Answered requests.", "method", "route", "status")
        self.connections = self._gauge("connections", "Open connections to the socket.")
        self.workers_lost = self._counter(
            "analysis_workers_lost", "Analysis workers that crashed or ran out of time on a submission."
        )
        self.trace_spans = self._counter(
            "trace_spans", "Spans of traces, by result: exported, failed, dropped.", "outcome"
        )
        self.bundle_bytes = self._gauge("bundle_bytes", "Size of all bundles.")
        self.bundles_removed = self._counter("bundles_removed", "Bundles removed by retention.")
        self.refused_connections = self._counter(
            "refused_connections",
            "Connections to the socket refused because of too many, by one user or in total.",
        )
        self.disk_free = self._gauge(
            "disk_free_bytes", "Free space on the file system of state and artifacts."
        )
        self.disk_size = self._gauge("disk_size_bytes", "Size of the file system of state and artifacts.")
        self.database_bytes = self._gauge("database_bytes", "Size of the database's files.")

    def render(self) -> bytes:
        """Return all values in the text form that Prometheus reads."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"assayd_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"assayd_{name}", text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, *labels: str, buckets: Sequence[float] = _SECONDS
    ) -> Histogram:
        return Histogram(f"assayd_{name}", text, labels, registry=self.registry, buckets=buckets)
