"""A batch: many submissions sent as lines, which become attempts a few at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from assayd.model.attempt import Failure
from assayd.model.document import DOCUMENT, about
from assayd.model.report import Verdict
from assayd.model.submission import Peer

MOST_NAMED = 100
"""Lines that are named where something is said of many."""


class BatchState(StrEnum):
    """Where a batch is."""

    OPEN = "open"
    """Not all of its lines have come yet; those that have are run."""
    RUNNING = "running"
    """All lines are known, and not all have their verdict."""
    FINISHED = "finished"
    """Every line has its verdict. Sending more lines opens it again."""
    CANCELLED = "cancelled"
    """A user stopped it. Sending the lines again continues with those that never ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch without its items.

    `name` is unique among its user's batches. `concurrency` is how many of its items may be unfinished
    attempts at once. With `dedupe`, items that would run the same are one attempt. `complete` says that a
    sender has reached the end of its lines. `webhook` is a URL that receives its end.
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
        """Return where it is."""
        if self.cancelled_at is not None:
            return BatchState.CANCELLED
        if not self.complete:
            return BatchState.OPEN
        return BatchState.RUNNING if self.finished_at is None else BatchState.FINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One accepted line.

    A line that can't be submitted has an `error`, and neither document nor attempt. `attempt_id` is the id
    that its attempt will have; `run_key` is equal for lines of a batch that are to be one attempt.
    """

    number: int
    input_digest: str
    document: bytes | None = None
    attempt_id: str | None = None
    run_key: str | None = None
    error: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedLines:
    """The result of lines that were sent."""

    __pydantic_config__ = DOCUMENT

    lines: int = field(default=0, metadata=about("Lines that weren't empty."))
    added: int = field(default=0, metadata=about("New items."))
    known: int = field(default=0, metadata=about("Lines that were already items."))
    malformed: int = field(
        default=0, metadata=about("Lines that can't be submitted; their items have the reason.")
    )
    conflicting: tuple[int, ...] = field(
        default=(),
        metadata=about(
            "Lines already submitted with another policy, overrides or labels, which are kept; at most 100."
        ),
    )

    def __add__(self, other: ReceivedLines) -> ReceivedLines:
        """Sum two."""
        return ReceivedLines(
            lines=self.lines + other.lines,
            added=self.added + other.added,
            known=self.known + other.known,
            malformed=self.malformed + other.malformed,
            conflicting=(*self.conflicting, *other.conflicting)[:MOST_NAMED],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of a batch with what it came to.

    `error` is why the line could not be submitted. `verdict` is that of the attempt; for a line in error,
    `error`; for one that a cancelled batch never ran, `cancelled`; None before.
    """

    line: int
    input_digest: str
    attempt_id: str | None
    verdict: Verdict | None = None
    cause: str | None = None
    rules: tuple[str, ...] = ()
    error: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many items of a batch came to what; `malformed` are among `error`."""

    total: int = 0
    waiting: int = 0
    validated: int = 0
    failed: int = 0
    error: int = 0
    cancelled: int = 0
    malformed: int = 0

    @property
    def done(self) -> int:
        """Count the items that have their verdict."""
        return self.total - self.waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """An item that has no verdict yet.

    `submission` is the digest of its document; a small `document` is here, a large one has to be read.
    """

    line: int
    attempt_id: str
    submission: str
    document: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPage:
    """Batches, newest first, and where the next page begins."""

    batches: tuple[Batch, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """The sender's options of a batch. None keeps the earlier value, or uses the daemon's default."""

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
