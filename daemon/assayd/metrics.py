"""The daemon's metrics, in a separate registry.

This module defines names, labels and buckets; the daemon's other parts update the metrics. Label values are
taken from closed sets only, so that a submission can't create a new time series.

`wrap_engine_with_metrics` wraps an engine to count and time every call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from inspect import iscoroutinefunction
from typing import TypeVar, cast

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from assayd import __version__
from assayd.clock import Clock
from assayd.errors import EngineError
from assayd.ports.engine import Capabilities, Engine

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of the text from `render_metrics`."""
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)


_Metric = TypeVar("_Metric", Counter, Histogram)
_MAX_LABELLED = 4096


@lru_cache(_MAX_LABELLED)
def get_labelled_series(metric: _Metric, *labels: str) -> _Metric:
    """Return a metric's time series for these labels from a cache, because look-ups are slow."""
    return metric.labels(*labels)


SampleKey = tuple[str, str, tuple[tuple[str, str], ...]]
"""The name of a metric, the name of one of its samples, and the sample's labels."""
Samples = Mapping[SampleKey, float]
"""The values of time series by key."""
_GAUGES = frozenset({"assayd_containers", "assayd_idle_containers", "assayd_refill_seconds"})
_EXECUTOR_METRICS = _GAUGES | {
    f"assayd_{name}"
    for name in ("engine_call_duration_seconds", "engine_errors", "egress_accesses", "egress_bytes")
}
"""The metrics that executors send to the daemon, since only they know the values."""
_MAX_METRIC = "assayd_refill_seconds"
"""The metric of which the maximum is shown; of other metrics, the sum is shown."""


def combine_samples(*parts: Samples) -> dict[SampleKey, float]:
    """Combine the samples of several processes.

    Values of the same series are added; of the refill time, the maximum is kept.
    """
    combined: dict[SampleKey, float] = {}
    for part in parts:
        for key, value in part.items():
            before = combined.get(key, 0.0)
            combined[key] = max(before, value) if key[0] == _MAX_METRIC else before + value
    return combined


def remove_gauges(samples: Samples) -> Samples:
    """Return the values that stay valid after their process has ended."""
    return {key: value for key, value in samples.items() if key[0] not in _GAUGES}


class _Combined:
    """A registry whose values are combined with those of executors."""

    def __init__(self, registry: CollectorRegistry, others: Samples) -> None:
        self._registry = registry
        self._others = others

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            others = {key: value for key, value in self._others.items() if key[0] == metric.name}
            if others:
                combined = combine_samples(_read_samples(metric), others)
                metric.samples = [
                    Sample(name, dict(labels), value) for (_, name, labels), value in combined.items()
                ]
            yield metric


def _read_samples(metric: Metric) -> Samples:
    return {
        (metric.name, one.name, tuple(one.labels.items())): one.value
        for one in metric.samples
        if not one.name.endswith("_created")
    }


class Metrics:
    """All metrics of one daemon in one registry.

    `others` returns the values of other processes, which are added to the rendered ones. By default, there
    are none.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.others: Callable[[], Samples] = dict
        ProcessCollector(namespace="assayd", registry=self.registry)
        self._create_gauge("build_info", "Version of the running daemon.", "version").labels(__version__).set(
            1
        )
        self.policies_stale = self._create_gauge(
            "policies_stale", "1 while the policy files can't be loaded, so that older policies stay in use."
        )
        self.ready = self._create_gauge("ready", "1 while attempts are accepted.")
        self._create_attempt_metrics()
        self._create_chain_metrics()
        self._create_container_metrics()
        self._create_daemon_metrics()

    def _create_attempt_metrics(self) -> None:
        self.accepted = self._create_counter("attempts_accepted", "Accepted attempts.", "kind")
        self.attempts = self._create_counter("attempts", "Finished attempts.", "kind", "verdict", "cause")
        self.attempts_reported = self._create_counter(
            "attempts_reported",
            "Attempts under report-only policies, by whether enforcement would fail them.",
            "kind",
            "would_fail",
        )
        self.under_way = self._create_gauge("attempts_under_way", "Attempts without a verdict.", "state")
        self.queue_depth = self._create_gauge("queue_depth", "Attempts in the queue.")
        self.batch_items_waiting = self._create_gauge(
            "batch_items_waiting", "Items of unfinished batches without a verdict."
        )
        self.oldest_attempt = self._create_gauge(
            "oldest_attempt_seconds", "Age of the oldest attempt without a verdict; 0 if there is none."
        )
        self.queue_bytes = self._create_gauge("queue_bytes", "Submissions held in memory.")
        self.attempt_duration = self._create_histogram(
            "attempt_duration_seconds", "Time of attempts, by step.", "stage"
        )
        self.stage_duration = self._create_histogram(
            "stage_duration_seconds", "Time of a kind's stages.", "kind", "stage"
        )
        self.limit_use = self._create_histogram(
            "limit_use_ratio",
            "Share of a limit that attempts used; 1 is all of it.",
            "limit",
            buckets=_SHARES,
        )
        self.static_misses = self._create_counter(
            "static_misses", "Runs that failed with a fault that static stages missed.", "kind", "rule"
        )
        self.denied_imports = self._create_counter("denied_imports", "Imports refused at run time.", "kind")
        self.denied_connections = self._create_counter(
            "denied_connections", "Connections of submitted code that the policy refused.", "kind"
        )

    def _create_chain_metrics(self) -> None:
        self.repairs = self._create_counter("repairs", "Finished repairs.", "kind", "provider", "outcome")
        self.repair_fixes = self._create_counter(
            "repair_fixes",
            "Fixes, by number in the repair and verdict.",
            "kind",
            "provider",
            "number",
            "verdict",
        )
        self.repair_duration = self._create_histogram(
            "repair_duration_seconds", "Time from the failure to the repaired attempt.", "kind", "provider"
        )
        self.repair_fix_duration = self._create_histogram(
            "repair_fix_duration_seconds", "Time from a failure to its fix.", "kind", "provider"
        )
        self.provider_tokens = self._create_counter(
            "provider_tokens",
            "Tokens of requests to providers and of their replies.",
            "kind",
            "provider",
            "part",
        )

    def _create_container_metrics(self) -> None:
        self.engine_info = self._create_gauge("engine_info", "The engine in use.", "kind", "version")
        self.templates = self._create_gauge("templates", "1 while containers are cloned from templates.")
        self.leases = self._create_counter("leases", "Containers leased to runs.", "start")
        self.containers = self._create_gauge("containers", "Existing containers.", "state")
        self.idle_containers = self._create_gauge("idle_containers", "Idle containers.", "pool_key", "image")
        self.refill_seconds = self._create_gauge(
            "refill_seconds", "Recent time to create a container.", "pool_key", "image"
        )
        self.engine_call = self._create_histogram(
            "engine_call_duration_seconds", "Time of calls to the container engine.", "call"
        )
        self.engine_errors = self._create_counter(
            "engine_errors", "Failed calls to the container engine.", "call", "code"
        )
        self.egress_accesses = self._create_counter(
            "egress_accesses", "Hosts that submitted code requested, by result.", "rule"
        )
        self.egress_bytes = self._create_counter(
            "egress_bytes", "Bytes of submitted code's connections.", "direction"
        )

    def _create_daemon_metrics(self) -> None:
        self.requests = self._create_counter("requests", "Answered requests.", "method", "route", "status")
        self.connections = self._create_gauge("connections", "Open connections to the socket.")
        self.workers_lost = self._create_counter(
            "analysis_workers_lost", "Analysis workers that crashed or ran out of time on a submission."
        )
        self.trace_spans = self._create_counter(
            "trace_spans", "Spans of traces, by result: exported, failed, dropped.", "outcome"
        )
        self.webhook_tries = self._create_counter(
            "webhook_tries", "Deliveries of webhook messages, by result.", "outcome"
        )
        self.webhook_messages = self._create_gauge(
            "webhook_messages_waiting", "Undelivered webhook messages with at least one failed delivery."
        )
        self.bundle_bytes = self._create_gauge("bundle_bytes", "Size of all bundles.")
        self.bundles_removed = self._create_counter("bundles_removed", "Bundles removed by retention.")
        self.refused_connections = self._create_counter(
            "refused_connections",
            "Connections to the socket refused because of too many, by one user or in total.",
        )
        self.disk_free = self._create_gauge(
            "disk_free_bytes", "Free space on the file system of state and artifacts."
        )
        self.disk_size = self._create_gauge(
            "disk_size_bytes", "Size of the file system of state and artifacts."
        )
        self.database_bytes = self._create_gauge("database_bytes", "Size of the database's files.")

    def render_metrics(self) -> bytes:
        """Return all values, including those of other processes, in the Prometheus text format."""
        return generate_latest(cast("CollectorRegistry", _Combined(self.registry, self.others())))

    def collect_for_daemon(self) -> Samples:
        """Return an executor's values that the daemon adds to its own."""
        metrics = [metric for metric in self.registry.collect() if metric.name in _EXECUTOR_METRICS]
        return combine_samples(*map(_read_samples, metrics))

    def _create_counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"assayd_{name}", text, labels, registry=self.registry)

    def _create_gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"assayd_{name}", text, labels, registry=self.registry)

    def _create_histogram(
        self, name: str, text: str, *labels: str, buckets: Sequence[float] = _SECONDS
    ) -> Histogram:
        return Histogram(f"assayd_{name}", text, labels, registry=self.registry, buckets=buckets)


def wrap_engine_with_metrics(engine: Engine, metrics: Metrics, clock: Clock) -> Engine:
    """Return the engine, wrapped so that the durations and error codes of its calls are measured."""
    return cast("Engine", _MeasuredEngine(engine, metrics, clock))


class _MeasuredEngine:
    """A proxy of an engine that measures all awaited calls except `close`."""

    def __init__(self, engine: Engine, metrics: Metrics, clock: Clock) -> None:
        self._engine = engine
        self._metrics = metrics
        self._clock = clock

    def capabilities(self) -> Capabilities:
        """Return the engine's capabilities. This separate method spares frequent calls the lookup."""
        return self._engine.capabilities()

    def __getattr__(self, name: str) -> object:
        call = getattr(self._engine, name)
        timed = iscoroutinefunction(call) and name != "close"
        if not timed:
            return call
        measured_call = partial(self._measure_call, name, call)
        setattr(self, name, measured_call)  # so that it is looked up only once
        return measured_call

    async def _measure_call(
        self, name: str, call: Callable[..., Awaitable[object]], *arguments: object
    ) -> object:
        began = self._clock.monotonic()
        try:
            return await call(*arguments)
        except EngineError as problem:
            self._metrics.engine_errors.labels(name, problem.code).inc()
            raise
        finally:
            get_labelled_series(self._metrics.engine_call, name).observe(self._clock.monotonic() - began)
