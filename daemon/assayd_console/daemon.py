"""Sends the pages' requests to the daemon; responses are JSON objects or streams. Raises: ClientError."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from assayd_client import AsyncClient, Document, StreamEvent, requests
from assayd_client.requests import ClientRequest

KEPT_S = 60.0
"""Seconds for which kinds and profiles are cached: they are large, and change only at a reload."""


class ConsoleDaemon:
    """A client of the daemon's socket that acts as the user who started the console."""

    def __init__(self, client: AsyncClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._kinds: tuple[float, list[Document]] | None = None

    async def ask(self, request: ClientRequest[Any]) -> Document:
        """Send a request and return the response's JSON object."""
        document: Document = json.loads(await self._client.send_for_content(request))
        return document

    async def fetch(self, request: ClientRequest[Any]) -> bytes:
        """Send a request and return the response's bytes."""
        return await self._client.send_for_content(request)

    def events(self, request: ClientRequest[StreamEvent]) -> AsyncIterator[StreamEvent]:
        """Yield the events of a response as they arrive."""
        return self._client.send_for_events(request)

    def lines(self, request: ClientRequest[Any]) -> AsyncIterator[Document]:
        """Yield the JSON objects in the lines of a response as they arrive."""
        return self._client.send_for_lines(replace(request, reads=None))

    async def kinds(self) -> list[Document]:
        """Return all kinds, sorted by name."""
        if self._kinds is None or self._clock() - self._kinds[0] > KEPT_S:
            found = (await self.ask(requests.kinds()))["kinds"]
            self._kinds = (self._clock(), sorted(found, key=lambda kind: str(kind["kind"])))
        return self._kinds[1]

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
