"""Samples the daemon's metrics every few seconds while any page shows them; all pages share the samples."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from assayd_client import Document, requests
from assayd_client.cli.sample import MetricsSample, Span, parse_metrics, span
from assayd_console.daemon import ConsoleDaemon

EVERY_S = 5.0
HOUR_EVERY_S = 30.0
"""Maximum age in seconds of the last hour's counts, which need a database query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The daemon's metrics now and since the previous sample; `hour` summarizes the last hour."""

    at: datetime
    span: Span
    hour: Document


class DaemonSampler:
    """A sampler of the daemon's metrics on demand; requests at about the same time share a sample."""

    def __init__(self, daemon: ConsoleDaemon, clock: Callable[[], float] = time.monotonic) -> None:
        self._daemon = daemon
        self._clock = clock
        self._turn = asyncio.Lock()
        self._before: MetricsSample | None = None
        self._look: Look | None = None
        self._hour: tuple[float, Document] | None = None

    async def look(self) -> Look:
        """Return a sample that is recent or new. Raises: ClientError."""
        async with self._turn:
            if self._look is None or self._clock() - self._look.span.now.taken_s >= EVERY_S * 0.9:
                self._look = await self._take_sample()
            return self._look

    @property
    def answered_at(self) -> datetime | None:
        """Return the time of the daemon's last answer; None if it has never answered."""
        return None if self._look is None else self._look.at

    async def _take_sample(self) -> Look:
        text = (await self._daemon.fetch(requests.metrics())).decode()
        sample, at = parse_metrics(text, self._clock()), datetime.now(UTC)
        started = sample.total("assayd_process_start_time_seconds")
        seen = span(sample, self._before, at.timestamp() - started if started else 0.0)
        self._before = sample
        return Look(at=at, span=seen, hour=await self._get_last_hour(at))

    async def _get_last_hour(self, at: datetime) -> Document:
        if self._hour is None or self._clock() - self._hour[0] > HOUR_EVERY_S:
            since = (at - timedelta(hours=1)).isoformat(timespec="seconds")
            self._hour = (self._clock(), await self._daemon.ask(requests.summary(since=since, bucket_s=120)))
        return self._hour[1]
