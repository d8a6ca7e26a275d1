"""What answers about batches look like, for the reference alone, as `schemas` has the others."""

from __future__ import annotations

from pydantic import Field

from assayd.api.schemas import Described, Failure, Peer
from assayd.model.batch import BatchState
from assayd.model.report import Verdict


class Counts(Described):
    """How many items of a batch came to what."""

    total: int = Field(description="All items.")
    waiting: int = Field(description="Items without a verdict, those under way included.")
    running: int = Field(description="Of these, attempts under way.")
    validated: int = Field(description="Items with this verdict.")
    failed: int = Field(description="Items with this verdict.")
    error: int = Field(description="Items with this verdict, malformed lines included.")
    cancelled: int = Field(description="Items that were stopped, or never started because the batch was.")
    malformed: int = Field(description="Lines that could not be submitted.")


class ReceivedLines(Described):
    """What became of lines that were sent."""

    lines: int = Field(description="Lines that were not blank.")
    added: int = Field(description="Items that are new.")
    known: int = Field(description="Lines that were items already.")
    malformed: int = Field(description="Lines that cannot be submitted; their items say why.")
    conflicting: list[int] = Field(
        description="Lines known with another policy, overrides or labels, which they keep; at most 100."
    )


class Batch(Described):
    """Many submissions that were sent as lines."""

    id: str = Field(description="ULID.")
    name: str = Field(description="Unique among its user's batches.")
    state: BatchState = Field(description="Where it is.")
    created_at: str = Field(description="When it was opened.")
    cancelled_at: str | None = Field(description="When somebody stopped it.")
    finished_at: str | None = Field(description="When the last item got its verdict.")
    peer: Peer = Field(description="Who opened it.")
    concurrency: int = Field(description="How many of its attempts may be unfinished at once.")
    dedupe: bool = Field(description="Whether lines that would run the same are one attempt.")
    complete: bool = Field(description="Whether a sender has reached the end of its lines.")
    counts: Counts = Field(description="What its items came to.")
    received: ReceivedLines | None = Field(description="What became of lines just sent; else null.")


class BatchPage(Described):
    """A page of batches, newest first."""

    batches: list[Batch] = Field(description="The batches.")
    next_cursor: str | None = Field(description="Where the next page begins; null on the last.")


class Item(Described):
    """One line of a batch."""

    line: int = Field(description="Its number, from 1.")
    input_digest: str = Field(description="SHA-256 of kind and payload; of the line, when malformed.")
    attempt_id: str | None = Field(description="Its attempt; there may be none yet. Null when malformed.")
    verdict: Verdict | None = Field(description="What it came to; null until then.")
    cause: str | None = Field(description="How its run ended; null when nothing was run.")
    rules: list[str] = Field(description="The rules of its errors, each once.")
    error: Failure | None = Field(description="Why the line could not be submitted.")


class ItemPage(Described):
    """A page of items, in line order."""

    items: list[Item] = Field(description="The items.")
    next_after: int | None = Field(description="`after` of the next page; null on the last.")
