"""What the daemon counts and measures, in a registry of its own.

Decides names, labels and buckets; who counts what is up to the parts. Labels come from closed sets only: a
submission cannot make a new time series.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """All metrics of one daemon."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.attempts = self._counter("attempts", "Attempts that ended.", "kind", "verdict", "cause")
        self.attempt_duration = self._histogram(
            "attempt_duration_seconds", "Time of an attempt, by part of its way.", "stage"
        )
        self.static_misses = self._counter(
            "static_misses", "Runs that ended in something the static stages let through.", "kind", "rule"
        )
        self.leases = self._counter("leases", "Containers handed out.", "start")
        self.containers = self._gauge("containers", "Containers that exist.", "state")
        self.idle_containers = self._gauge("idle_containers", "Containers that wait.", "pool_key")
        self.refill_seconds = self._gauge("refill_seconds", "Time of a creation lately.", "pool_key")
        self.queue_depth = self._gauge("queue_depth", "Attempts that wait.")
        self.egress_accesses = self._counter(
            "egress_accesses", "Hosts that submitted code asked for, by what came of it.", "rule"
        )
        self.egress_bytes = self._counter(
            "egress_bytes", "Bytes of submitted code's connections.", "direction"
        )
        self.ready = self._gauge("ready", "1 while attempts are served.")

    def render(self) -> bytes:
        """Give all values in the text form that Prometheus reads."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"assayd_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"assayd_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(f"assayd_{name}", text, labels, registry=self.registry, buckets=_SECONDS)
