"""Webhook messages: the finished object, its result and its path, but never the code's output."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from assayd.documents.base import BaseDocument, Timestamp, format_time
from assayd.documents.batches import CountsDocument
from assayd.model.attempt import Attempt
from assayd.model.batch import Batch, BatchState, ItemCounts
from assayd.model.report import Verdict


class EndedAttemptDocument(BaseDocument):
    """An attempt with its verdict."""

    id: str = Field(description="ULID.")
    kind: str = Field(description="Kind of the submission.")
    state: Literal["finished"] = Field(description="State: always `finished`.")
    verdict: Verdict = Field(description="The verdict.")
    cause: str | None = Field(description="How its run ended; null if nothing ran.")
    batch_id: str | None = Field(description="The batch that it belongs to.")
    parent_id: str | None = Field(description="The attempt that it follows.")
    labels: dict[str, str] = Field(description="Labels of the submission.")
    uid: int = Field(description="User id of the submitter.")
    path: str = Field(description="Path of the complete document at the daemon.")


class EndedBatchDocument(BaseDocument):
    """A batch that is finished or cancelled."""

    id: str = Field(description="ULID.")
    name: str = Field(description="Unique among its user's batches.")
    state: BatchState = Field(description="`finished` or `cancelled`.")
    counts: CountsDocument = Field(description="Items by verdict.")
    uid: int = Field(description="User id of the submitter.")
    path: str = Field(description="Path of the complete document at the daemon.")


class EndedGenerationDocument(BaseDocument):
    """A generation, together with its outcome."""

    id: str = Field(description="ULID.")
    kind: str = Field(description="Kind to generate.")
    state: Literal["finished"] = Field(description="State: always `finished`.")
    outcome: str = Field(description="As in the generation.")
    attempt_id: str | None = Field(description="The last attempt that was run.")
    labels: dict[str, str] = Field(description="Labels of its attempts.")
    uid: int = Field(description="User id of the submitter.")
    path: str = Field(description="Path of the complete document at the daemon.")


Ended = Literal["attempt.finished", "batch.finished", "generation.finished"]


class WebhookDocument(BaseDocument):
    """The body of a webhook message."""

    type: Ended = Field(description="Type of the event.")
    timestamp: Timestamp = Field(description="When.")
    data: EndedAttemptDocument | EndedBatchDocument | EndedGenerationDocument = Field(
        description="The finished object and its result."
    )


def build_attempt_message(attempt: Attempt, at: datetime) -> WebhookDocument:
    """Return the webhook message about an attempt's verdict."""
    data = EndedAttemptDocument.from_value(
        attempt, labels=dict(attempt.labels), uid=attempt.peer.uid, path=f"/v1/attempts/{attempt.id}"
    )
    return build_webhook_message("attempt.finished", at, data)


def build_batch_message(batch: Batch, tally: ItemCounts, at: datetime) -> WebhookDocument:
    """Return the message about the end of a batch."""
    counts = CountsDocument.from_value(tally, running=0)
    place = f"/v1/batches/{batch.id}"
    data = EndedBatchDocument.from_value(batch, counts=counts, uid=batch.peer.uid, path=place)
    return build_webhook_message("batch.finished", at, data)


def build_webhook_message(
    kind: Ended, at: datetime, data: EndedAttemptDocument | EndedBatchDocument | EndedGenerationDocument
) -> WebhookDocument:
    """Return the body of a webhook message."""
    return WebhookDocument.model_construct(type=kind, timestamp=format_time(at), data=data)
