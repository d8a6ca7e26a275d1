"""Which batches somebody is sending just now, and when each was last sent to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from assayd.ports.clock import Clock


class Uploads:
    """The uploads of this run of the daemon, by the batch that they belong to."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._active: Counter[str] = Counter()
        self._ended: dict[str, datetime] = {}

    @property
    def active(self) -> frozenset[str]:
        """Return the batches that somebody is sending to."""
        return frozenset(self._active)

    @contextmanager
    def active_for(self, batch_id: str) -> Iterator[None]:
        """Count a batch as one that somebody is sending to while the body runs."""
        self._active[batch_id] += 1
        try:
            yield
        finally:
            self._active[batch_id] -= 1
            if not self._active[batch_id]:
                del self._active[batch_id]
                self._ended[batch_id] = self._clock.now()

    def heard_since(self, moment: datetime) -> frozenset[str]:
        """Return the batches that somebody has been sending to since then; forget the others."""
        self._ended = {batch: ended for batch, ended in self._ended.items() if ended >= moment}
        return self.active | self._ended.keys()
