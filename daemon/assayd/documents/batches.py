"""Documents of batches and their items."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from assayd.documents.attempts import AttemptDocument
from assayd.documents.base import BaseDocument, Timestamp, format_time
from assayd.model.attempt import Failure
from assayd.model.batch import BatchProgress, BatchState, ReceivedLines
from assayd.model.report import Verdict
from assayd.model.submission import Peer


class CountsDocument(BaseDocument):
    """Numbers of a batch's items by result."""

    total: int = Field(description="All items.")
    waiting: int = Field(description="Items without a verdict, including running ones.")
    running: int = Field(description="Running attempts among these.")
    validated: int = Field(description="Items with this verdict.")
    failed: int = Field(description="Items with this verdict.")
    error: int = Field(description="Items with this verdict, including malformed lines.")
    cancelled: int = Field(description="Items that were cancelled, also before they started.")
    malformed: int = Field(description="Lines that could not be submitted.")


class BatchDocument(BaseDocument):
    """A batch: a set of submissions that were sent as lines."""

    id: str = Field(description="ULID.")
    name: str = Field(description="Unique among its user's batches.")
    state: BatchState = Field(description="State of the batch.")
    created_at: Timestamp = Field(description="When it was opened.")
    cancelled_at: Timestamp | None = Field(description="When a user cancelled it.")
    finished_at: Timestamp | None = Field(description="When the last item got its verdict.")
    peer: Peer = Field(description="The user who opened it.")
    concurrency: int = Field(description="Maximum number of unfinished attempts.")
    dedupe: bool = Field(description="Whether equal lines share one attempt.")
    complete: bool = Field(description="Whether a sender has reached the end of its lines.")
    webhook: str | None = Field(None, description="The URL that receives its end.")
    counts: CountsDocument = Field(description="Items by verdict.")
    received: ReceivedLines | None = Field(description="Counts of the lines in this request; otherwise null.")


class BatchPageDocument(BaseDocument):
    """A page of batches, with the newest first."""

    batches: list[BatchDocument] = Field(description="The batches.")
    next_cursor: str | None = Field(description="Start of the next page; null on the last page.")


class ItemDocument(BaseDocument):
    """An item: one line of a batch."""

    line: int = Field(description="Its number, from 1.")
    input_digest: str = Field(description="SHA-256 of kind and payload; of the line, when malformed.")
    attempt_id: str | None = Field(description="Its attempt; null if it has none yet or is malformed.")
    verdict: Verdict | None = Field(description="Verdict; null until finished.")
    cause: str | None = Field(description="How its run ended; null if nothing ran.")
    rules: list[str] = Field(description="The rules of its errors, each once.")
    error: Failure | None = Field(description="Why the line couldn't be submitted.")


class ItemPageDocument(BaseDocument):
    """A page of items, in line order."""

    items: list[ItemDocument] = Field(description="The items.")
    next_after: int | None = Field(description="`after` of the next page; null on the last.")


class BatchResultDocument(ItemDocument):
    """One item of a batch, together with its attempt."""

    attempt: AttemptDocument | None = Field(description="Its attempt, with the report once it is finished.")


class BatchEventDocument(BaseDocument):
    """The progress of a batch. Each event is complete and doesn't depend on earlier events."""

    id: str = Field(description="Its time, in microseconds.")
    batch_id: str = Field(description="The batch.")
    kind: str = Field(description="`progress`, finally `finished`.")
    at: Timestamp = Field(description="When.")
    body: dict[str, Any] = Field(description="The batch's state, and its counts.")


def build_batch_document(progress: BatchProgress, received: ReceivedLines | None = None) -> BatchDocument:
    """Return the document of a batch. `received` is the number of lines in this request."""
    return BatchDocument.from_value(
        progress.batch,
        counts=CountsDocument.from_value(progress.tally, running=progress.running),
        received=received,
    )


def build_progress_document(progress: BatchProgress) -> BatchEventDocument:
    """Return the document of a batch's progress event."""
    counts = CountsDocument.from_value(progress.tally, running=progress.running)
    return BatchEventDocument.model_construct(
        id=str(int(progress.at.timestamp() * 1_000_000)),
        batch_id=progress.batch.id,
        kind="finished" if progress.is_over else "progress",
        at=format_time(progress.at),
        body={"state": progress.batch.state, **vars(counts)},
    )
