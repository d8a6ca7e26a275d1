"""Messages to webhooks: what is kept of them until they are delivered, and who may have them sent where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    """One message to one URL. `id` stays the same however often it is sent; `origin` is whom it goes to."""

    id: str
    uid: int
    url: str
    origin: str
    body: str
    created_at: datetime
    next_try_at: datetime
    tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """How many messages wait that were tried before, and since when the oldest of them does."""

    count: int
    oldest: datetime | None


class WebhookStore(Protocol):
    """Messages that are not delivered yet. Raises StoreError."""

    async def due(self, now: datetime, *, each: int) -> Sequence[WebhookMessage]:
        """Return what is to be sent now: of every user and origin the first so many."""
        ...

    async def next_try(self, after: datetime) -> datetime | None:
        """Return when the next message is due after a time; None when there is none."""
        ...

    async def postpone(self, message_id: str, *, tries: int, until: datetime) -> None:
        """Record that a try has failed, and when the next is due."""
        ...

    async def remove(self, message_id: str) -> None:
        """Forget a message: it was delivered, or given up."""
        ...

    async def waiting(self, uid: int) -> int:
        """Count the messages of a user."""
        ...

    async def undelivered(self) -> Undelivered:
        """Count the messages whose tries have failed so far."""
        ...


class WebhookGate(Protocol):
    """Decides which URLs may be named."""

    async def check(self, url: str, uid: int) -> None:
        """See that a user may have messages sent there.

        Raises: RequestError ``webhook.invalid``, ``webhook.not_allowed``, ``quota.webhooks`` (retryable).
        """
        ...
