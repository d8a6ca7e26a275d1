"""The daemon as the pages ask it: JSON objects, and streams of them. Raises ClientError."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from assayd_client import AsyncClient, Document, StreamEvent, requests
from assayd_client.requests import ClientRequest

KEPT_S = 60.0
"""How long kinds and profiles are kept: they are large, and change at a reload only."""


class ConsoleDaemon:
    """Asks the daemon over its socket, as the user who started the console."""

    def __init__(self, client: AsyncClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._kinds: tuple[float, list[Document]] | None = None

    async def ask(self, request: ClientRequest[Any]) -> Document:
        """Return the JSON object that the answer is."""
        document: Document = json.loads(await self._client.send_for_content(request))
        return document

    async def fetch(self, request: ClientRequest[Any]) -> bytes:
        """Return the answer as it is."""
        return await self._client.send_for_content(request)

    def events(self, request: ClientRequest[StreamEvent]) -> AsyncIterator[StreamEvent]:
        """Return the events of the answer, as they come."""
        return self._client.send_for_events(request)

    def lines(self, request: ClientRequest[Any]) -> AsyncIterator[Document]:
        """Return the JSON objects that the lines of the answer are, as they come."""
        return self._client.send_for_lines(replace(request, reads=None))

    async def kinds(self) -> list[Document]:
        """Return all kinds, by name."""
        if self._kinds is None or self._clock() - self._kinds[0] > KEPT_S:
            found = (await self.ask(requests.kinds()))["kinds"]
            self._kinds = (self._clock(), sorted(found, key=lambda kind: str(kind["kind"])))
        return self._kinds[1]

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()
