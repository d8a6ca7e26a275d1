"""Where batches live, and what the API needs of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from assayd.model.attempt import Attempt, Failure
from assayd.model.batch import Batch, BatchState, Item, Line, Received, Tally, Waiting
from assayd.model.submission import Peer


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPage:
    """Batches, newest first, and where the next page begins."""

    batches: tuple[Batch, ...]
    next_cursor: str | None


class BatchStore(Protocol):
    """Batches and their items. Raises StoreError; each write is one transaction."""

    async def open(self, batch: Batch, *, most_unfinished: int) -> Batch:
        """Record a new batch, or return the one of that user and name, set to go on.

        Raises: RequestError ``quota.full``, when the user has so many unfinished ones.
        """
        ...

    async def add(self, batch_id: str, lines: Sequence[Line]) -> Received:
        """Record lines that are not there yet; one with another input replaces the line of its number.

        Raises: RequestError ``batch.removed``, when there is no such batch any more.
        """
        ...

    async def complete(self, batch_id: str) -> None:
        """Record that a sender has reached the end of its lines."""
        ...

    async def get(self, batch_id: str) -> Batch | None:
        """Return a batch by its id; None where there is none."""
        ...

    async def find(self, uid: int, name: str) -> Batch | None:
        """Return a batch by its user and name; None where there is none."""
        ...

    async def list(self, *, uid: int | None, cursor: str | None, limit: int) -> BatchPage:
        """List batches, newest first. Raises: RequestError ``invalid`` for a cursor that is not one."""
        ...

    async def tally(self, batch_id: str) -> Tally:
        """Count what the items came to."""
        ...

    async def items(self, batch_id: str, *, after: int, limit: int) -> Sequence[Item]:
        """Return items in line order, from beyond a line; a line that was replaced is left out."""
        ...

    async def waiting(self, batch_id: str, *, after: int, limit: int) -> Sequence[Waiting]:
        """Return items without a verdict in line order, from beyond a line."""
        ...

    async def document(self, submission: str) -> bytes:
        """Return a submission by its digest."""
        ...

    async def refuse(self, batch_id: str, line: int, failure: Failure) -> None:
        """Record that an item can't be submitted."""
        ...

    async def cancel(self, batch_id: str, at: datetime) -> None:
        """Record that nothing more of a batch is to be started."""
        ...

    async def finish(self, batch_id: str, at: datetime) -> bool:
        """Record the end of a complete batch; False when an item has no verdict."""
        ...

    async def unfinished(self) -> Sequence[Batch]:
        """Return every batch that is neither finished nor cancelled."""
        ...

    async def expire(self, before: datetime, *, unless: frozenset[str]) -> None:
        """Forget batches that were opened before a time, have ended, and of whose attempts none is left.

        Args:
            before: that time.
            unless: batches that stay.
        """
        ...

    async def silent(self, before: datetime) -> Sequence[Batch]:
        """Return the batches that were opened before a time and not sent to their end."""
        ...

    async def cancelled(self, batch_ids: Sequence[str]) -> frozenset[str]:
        """Return which of these batches were cancelled."""
        ...


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


class Batches(Protocol):
    """Batches, as the API sees them. Whose batch it is, the API checks."""

    async def open(self, request: BatchRequest, *, peer: Peer) -> Batch:
        """Begin a batch, or go on with the one of that name.

        Raises: RequestError ``not_ready`` or ``quota.full`` (retryable), ``invalid``,
        ``webhook.not_allowed``.
        """
        ...

    async def receive(
        self, batch: Batch, body: AsyncIterator[bytes], *, sees: Callable[[Attempt], bool]
    ) -> Received:
        """Take lines in as they come. What was taken in stays, also when the sender goes away.

        Args:
            batch: the batch that they belong to.
            body: the bytes of the lines, in any pieces.
            sees: tells whether the sender may refer to an attempt.

        Raises: RequestError ``quota.full`` or ``not_ready`` (retryable).
        """
        ...

    async def find(self, name: str, *, uid: int) -> Batch | None:
        """Return a batch by its id, or by the name that this user gave it; None where there is none."""
        ...

    async def list(self, *, uid: int | None, cursor: str | None, limit: int) -> BatchPage:
        """List batches, newest first."""
        ...

    async def progress(self, batch_id: str) -> Progress:
        """Return how far a batch is."""
        ...

    async def items(self, batch_id: str, *, after: int, limit: int) -> Sequence[Item]:
        """Return items in line order, from beyond a line."""
        ...

    def results(self, batch_id: str) -> AsyncGenerator[bytes, None]:
        """Return every item with its attempt and report, as lines of JSON, in line order."""
        ...

    def follow(self, batch_id: str) -> AsyncGenerator[Progress, None]:
        """Return how far a batch is each time that something changed, up to its end."""
        ...

    async def cancel(self, batch: Batch) -> None:
        """Start nothing more of a batch, and end what is under way.

        Raises: RequestError ``batch.finished``.
        """
        ...
