"""What a client asks of batches, and how they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from assayd.model.batch import Batch, BatchState, Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPage:
    """Batches, newest first, and where the next page begins."""

    batches: tuple[Batch, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """What the sender of a batch asks for. None leaves what is set, or takes the daemon's own."""

    name: str | None = None
    concurrency: int | None = None
    dedupe: bool | None = None
    webhook: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a batch is, at some moment."""

    batch: Batch
    tally: Tally
    running: int
    at: datetime

    @property
    def is_over(self) -> bool:
        """Return whether nothing more will happen, unless more is sent."""
        ended = self.batch.state in {BatchState.FINISHED, BatchState.CANCELLED}
        return ended and not self.running
