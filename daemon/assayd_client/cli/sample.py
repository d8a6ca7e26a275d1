"""Represents the daemon's metrics at one time, and computes rates from two such samples."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSample:
    """The values of all metrics by name and labels. `taken_s` is measured from an arbitrary time."""

    taken_s: float
    values: dict[str, dict[Labels, float]] = field(default_factory=dict)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of all values with this name and these labels."""
        return sum(v for key, v in self.values.get(name, {}).items() if labels.items() <= dict(key).items())

    def sum_by_label(self, name: str, label: str) -> dict[str, float]:
        """Return the sums of all values with this name, grouped by the value of one label."""
        sums: dict[str, float] = defaultdict(float)
        for key, value in self.values.get(name, {}).items():
            sums[dict(key).get(label, "")] += value
        return dict(sums)


def parse_metrics(text: str, taken_s: float) -> MetricsSample:
    """Parse metrics in the Prometheus text format."""
    values: dict[str, dict[Labels, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values[sample.name][tuple(sorted(sample.labels.items()))] = sample.value
    return MetricsSample(taken_s=taken_s, values=dict(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSpan:
    """The period between two samples, or from the daemon's start to the first sample."""

    now: MetricsSample
    before: MetricsSample
    seconds: float

    def compute_rate(self, name: str, **labels: str) -> float:
        """Return a counter's increase per second over the period."""
        return (
            self._compute_counter_increase(self.now.total(name, **labels), self.before.total(name, **labels))
            / self.seconds
        )

    def compute_rates_by_label(self, name: str, label: str) -> dict[str, float]:
        """Return the increase of a counter per second, grouped by the value of one label."""
        before = self.before.sum_by_label(name, label)
        return {
            value: self._compute_counter_increase(now, before.get(value, 0.0)) / self.seconds
            for value, now in self.now.sum_by_label(name, label).items()
        }

    def estimate_quantile_s(self, share: float, name: str, **labels: str) -> float | None:
        """Estimate a quantile of a histogram by linear interpolation, or return None without values.

        For a quantile in the last bucket, which has no upper bound, the lower bound is returned.
        """
        buckets = sorted(self.get_buckets(name, **labels).items())
        wanted = share * buckets[-1][1] if buckets else 0.0
        if not wanted:
            return None
        low = below = 0.0
        for high, count in buckets:
            if count >= wanted:
                return low if math.isinf(high) else low + (high - low) * (wanted - below) / (count - below)
            low, below = high, count
        return low

    def get_buckets(self, name: str, **labels: str) -> dict[float, float]:
        """Return the cumulative count of each bucket, keyed by the bucket's upper bound."""
        counts: dict[float, float] = defaultdict(float)
        old = self.before.values.get(f"{name}_bucket", {})
        for key, value in self.now.values.get(f"{name}_bucket", {}).items():
            named = dict(key)
            if labels.items() <= named.items():
                counts[float(named["le"])] += self._compute_counter_increase(value, old.get(key, 0.0))
        return counts

    @staticmethod
    def _compute_counter_increase(now: float, before: float) -> float:
        """Return the increase of a counter. A counter that has decreased was reset to 0 by a restart."""
        return now - before if now >= before else now


def build_sample_span(now: MetricsSample, before: MetricsSample | None, up_s: float) -> SampleSpan:
    """Return the period between two samples, or since the start `up_s` seconds ago."""
    if before is None:
        return SampleSpan(now=now, before=MetricsSample(taken_s=0.0), seconds=max(up_s, 1.0))
    return SampleSpan(now=now, before=before, seconds=max(now.taken_s - before.taken_s, 1e-3))
