"""Sends the pages' requests to the daemon, and samples its metrics while any page shows them.

Responses are JSON objects or streams. All pages share the samples, which are taken every few seconds.
Raises: ClientError.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from assayd_client import AsyncClient, Document, StreamEvent, requests
from assayd_client.cli.sample import MetricsSample, SampleSpan, build_sample_span, parse_metrics
from assayd_client.requests import ClientRequest

KINDS_CACHE_S = 60.0
"""Seconds for which kinds and profiles are cached: they are large, and change only at a reload."""
EVERY_S = 5.0
HOUR_COUNTS_MAX_AGE_S = 30.0
"""Maximum age in seconds of the last hour's counts, which need a database query."""


class ConsoleDaemon:
    """A client of the daemon's socket that acts as the user who started the console."""

    def __init__(self, client: AsyncClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._kinds: tuple[float, list[Document]] | None = None

    async def ask(self, request: ClientRequest[Any]) -> Document:
        """Send a request, and return the response as a JSON object."""
        document: Document = json.loads(await self._client.send_for_content(request))
        return document

    async def request_bytes(self, request: ClientRequest[Any]) -> bytes:
        """Send a request, and return the response body as bytes."""
        return await self._client.send_for_content(request)

    def events(self, request: ClientRequest[StreamEvent]) -> AsyncIterator[StreamEvent]:
        """Yield the events of a response as they arrive."""
        return self._client.send_for_events(request)

    def lines(self, request: ClientRequest[Any]) -> AsyncIterator[Document]:
        """Yield the JSON objects in the lines of a response as they arrive."""
        return self._client.send_for_lines(replace(request, reads=None))

    async def kinds(self) -> list[Document]:
        """Return all kinds, sorted by name, from a cache of `KINDS_CACHE_S` seconds."""
        if self._kinds is None or self._clock() - self._kinds[0] > KINDS_CACHE_S:
            found = (await self.ask(requests.kinds()))["kinds"]
            self._kinds = (self._clock(), sorted(found, key=lambda kind: str(kind["kind"])))
        return self._kinds[1]

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSample:
    """The daemon's metrics now and since the previous sample. `hour` summarizes the last hour."""

    at: datetime
    span: SampleSpan
    hour: Document


class DaemonSampler:
    """A sampler of the daemon's metrics on demand. Requests at about the same time share a sample."""

    def __init__(self, daemon: ConsoleDaemon, clock: Callable[[], float] = time.monotonic) -> None:
        self._daemon = daemon
        self._clock = clock
        self._turn = asyncio.Lock()
        self._before: MetricsSample | None = None
        self._look: DaemonSample | None = None
        self._hour: tuple[float, Document] | None = None

    async def get_sample(self) -> DaemonSample:
        """Return a sample that is less than `EVERY_S` seconds old. Raises: ClientError."""
        async with self._turn:
            if self._look is None or self._clock() - self._look.span.now.taken_s >= EVERY_S * 0.9:
                self._look = await self._take_sample()
            return self._look

    @property
    def last_sampled_at(self) -> datetime | None:
        """Return the time of the last sample, or None if no sample has been taken."""
        return None if self._look is None else self._look.at

    async def _take_sample(self) -> DaemonSample:
        text = (await self._daemon.request_bytes(requests.metrics())).decode()
        sample, at = parse_metrics(text, self._clock()), datetime.now(UTC)
        started = sample.total("assayd_process_start_time_seconds")
        seen = build_sample_span(sample, self._before, at.timestamp() - started if started else 0.0)
        self._before = sample
        return DaemonSample(at=at, span=seen, hour=await self._get_last_hour(at))

    async def _get_last_hour(self, at: datetime) -> Document:
        if self._hour is None or self._clock() - self._hour[0] > HOUR_COUNTS_MAX_AGE_S:
            since = (at - timedelta(hours=1)).isoformat(timespec="seconds")
            self._hour = (self._clock(), await self._daemon.ask(requests.summary(since=since, bucket_s=120)))
        return self._hour[1]
