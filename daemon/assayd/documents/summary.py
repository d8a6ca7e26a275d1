"""Documents of summaries: counts of attempts by result."""

from __future__ import annotations

from collections import Counter, defaultdict

from pydantic import Field

from assayd.documents.base import BaseDocument, Timestamp, format_time, milliseconds
from assayd.model.records import Summary


class SummaryBucketDocument(BaseDocument):
    """The attempts that were created in one time bucket."""

    at: Timestamp = Field(description="When the span begins.")
    verdicts: dict[str, int] = Field(description="Number of attempts by verdict.")


class SlowestDocument(BaseDocument):
    """One of the attempts with the longest duration."""

    attempt_id: str = Field(description="The attempt.")
    kind: str = Field(description="Its kind.")
    verdict: str = Field(description="Result.")
    duration_ms: float = Field(description="From start to verdict, without the time in the queue.")


class SummaryDocument(BaseDocument):
    """Counts of the finished attempts that match a query."""

    total: int = Field(description="Number of attempts.")
    verdicts: dict[str, int] = Field(description="By verdict.")
    causes: dict[str, int] = Field(description="By cause; attempts that didn't run have none.")
    kinds: dict[str, int] = Field(description="By kind.")
    rules: dict[str, int] = Field(
        description="Attempts by rule of their errors: the 100 most frequent rules, most frequent first."
    )
    bucket_s: int = Field(description="Length of each time span.")
    buckets: list[SummaryBucketDocument] = Field(
        description="By time, oldest first; empty spans are omitted."
    )
    slowest: list[SlowestDocument] = Field(description="The ten slowest attempts.")


def summary_document(summary: Summary, bucket_s: int) -> SummaryDocument:
    """Return the document of a summary."""
    totals: dict[str, Counter[str]] = {name: Counter() for name in ("verdict", "cause", "kind")}
    spans: dict[str, Counter[str]] = defaultdict(Counter)
    for count in summary.counts:
        spans[format_time(count.at)][count.verdict] += count.number
        for name, counter in totals.items():
            if (value := getattr(count, name)) is not None:
                counter[value] += count.number
    return SummaryDocument.model_construct(
        total=sum(count.number for count in summary.counts),
        verdicts=dict(totals["verdict"].most_common()),
        causes=dict(totals["cause"].most_common()),
        kinds=dict(totals["kind"].most_common()),
        rules=dict(summary.rules),
        bucket_s=bucket_s,
        buckets=[
            SummaryBucketDocument.model_construct(at=at, verdicts=dict(counts))
            for at, counts in sorted(spans.items())
        ],
        slowest=[
            SlowestDocument.from_value(each, duration_ms=milliseconds(each.took_s))
            for each in summary.slowest
        ],
    )
