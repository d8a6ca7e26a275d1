"""A batch: submissions sent as lines, only a few of which are processed at the same time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from assayd.model.attempt import Failure
from assayd.model.document import DOCUMENT, document_field
from assayd.model.report import Verdict
from assayd.model.submission import Peer

MAX_NAMED = 100
"""The maximum number of line numbers that a message lists."""


class BatchState(StrEnum):
    """The processing state of a batch."""

    OPEN = "open"
    """More lines may arrive. Lines that have arrived are run."""
    RUNNING = "running"
    """All lines have arrived, but some have no verdict yet."""
    FINISHED = "finished"
    """Every line has a verdict. New lines reopen the batch."""
    CANCELLED = "cancelled"
    """A user cancelled it. Sending the lines again continues with those that never ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch without its items.

    `name` is unique per user. `concurrency` limits the unfinished attempts of the batch. With `dedupe`,
    items with equal runs share one attempt. `complete` is true once all lines were received. `webhook` is a
    URL that receives a message when the batch ends.
    """

    id: str
    name: str
    peer: Peer
    created_at: datetime
    concurrency: int
    dedupe: bool = False
    complete: bool = False
    cancelled_at: datetime | None = None
    finished_at: datetime | None = None
    webhook: str | None = None

    @property
    def state(self) -> BatchState:
        """Return the state of the batch, derived from its times and from whether all lines were received."""
        if self.cancelled_at is not None:
            return BatchState.CANCELLED
        if not self.complete:
            return BatchState.OPEN
        return BatchState.RUNNING if self.finished_at is None else BatchState.FINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLine:
    """One accepted line of a batch.

    A line that can't be submitted has an `error`, but neither a document nor an attempt. `attempt_id` is
    the future id of the line's attempt. Lines of a batch with the same `run_key` share one attempt.
    """

    number: int
    input_digest: str
    document: bytes | None = None
    attempt_id: str | None = None
    run_key: str | None = None
    error: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedLines:
    """Counts of the lines that a request added to a batch."""

    __pydantic_config__ = DOCUMENT

    lines: int = field(default=0, metadata=document_field("Lines that weren't empty."))
    added: int = field(default=0, metadata=document_field("New items."))
    known: int = field(default=0, metadata=document_field("Lines that were already items."))
    malformed: int = field(
        default=0, metadata=document_field("Lines that can't be submitted; their items have the reason.")
    )
    conflicting: tuple[int, ...] = field(
        default=(),
        metadata=document_field(
            "Lines already submitted with another policy, overrides or labels, which are kept; at most 100."
        ),
    )

    def __add__(self, other: ReceivedLines) -> ReceivedLines:
        """Return the sum of the counts, and the first conflicting lines of both."""
        return ReceivedLines(
            lines=self.lines + other.lines,
            added=self.added + other.added,
            known=self.known + other.known,
            malformed=self.malformed + other.malformed,
            conflicting=(*self.conflicting, *other.conflicting)[:MAX_NAMED],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem:
    """One line of a batch with its result.

    `error` is the reason why the line couldn't be submitted. `verdict` is the attempt's verdict, or `error`
    for a line with an error, `cancelled` for a line that didn't run because the batch was cancelled, and
    None for an unfinished item.
    """

    line: int
    input_digest: str
    attempt_id: str | None
    verdict: Verdict | None = None
    cause: str | None = None
    rules: tuple[str, ...] = ()
    error: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemCounts:
    """The number of items per result. `malformed` items are also included in `error`."""

    total: int = 0
    waiting: int = 0
    validated: int = 0
    failed: int = 0
    error: int = 0
    cancelled: int = 0
    malformed: int = 0

    @property
    def done(self) -> int:
        """Return the number of items with a verdict."""
        return self.total - self.waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingItem:
    """An item that has no verdict yet.

    `submission` is the digest of the item's document, and `size` its length in bytes. `document` is set only
    for a small document; a large document must be read from the store. `accepted` is True if the item's
    attempt exists.
    """

    line: int
    attempt_id: str
    submission: str
    accepted: bool
    size: int = 0
    document: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPage:
    """A page of batches in descending order of time, with the cursor of the next page."""

    batches: tuple[Batch, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """The sender's options for a batch.

    If an option is None, an existing batch keeps its value, and a new batch uses the daemon's default.
    """

    name: str | None = None
    concurrency: int | None = None
    dedupe: bool | None = None
    webhook: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """A snapshot of the progress of a batch."""

    batch: Batch
    tally: ItemCounts
    running: int
    at: datetime

    @property
    def is_over(self) -> bool:
        """Return whether the batch has ended and none of its attempts is running. New lines reopen it."""
        ended = self.batch.state in {BatchState.FINISHED, BatchState.CANCELLED}
        return ended and not self.running
