from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from assayd.model.batch import Batch, BatchProgress, BatchRequest, ReceivedLines
from assayd.model.report import Verdict
from support.daemons.small_daemon import PEER, SmallDaemon, submission


class Sender:
    """Sends batches and waits for their end."""

    def lines(self, *codes: str, **changes: object) -> list[bytes]:
        return [json.dumps(submission(code, **changes)).encode() for code in codes]

    async def open(self, daemon: SmallDaemon, **how: Any) -> Batch:
        return await daemon.batches.open(BatchRequest(**{"name": "b", **how}), peer=PEER)

    async def send(
        self,
        daemon: SmallDaemon,
        lines: Sequence[bytes],
        *,
        sees: Callable[[Any], bool] | None = None,
        **how: Any,
    ) -> tuple[Batch, ReceivedLines]:
        batch = await self.open(daemon, **how)
        body = pieces(b"\n".join(lines))
        return batch, await daemon.batches.receive(batch, body, sees=sees or (lambda attempt: True))

    async def end(self, daemon: SmallDaemon, batch: Batch) -> BatchProgress:
        """Follow a batch to its end."""
        return [progress async for progress in daemon.batches.follow(batch.id)][-1]

    async def verdicts(self, daemon: SmallDaemon, batch: Batch) -> list[tuple[int, Verdict | None]]:
        items = await daemon.batches.items(batch.id, after=0, limit=1000)
        return [(item.line, item.verdict) for item in items]


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@pytest.fixture
def sender() -> Sender:
    return Sender()
