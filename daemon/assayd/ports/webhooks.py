"""Messages to webhooks: what is kept of them until they are delivered, and who may have them sent where."""

from __future__ import annotations

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


class WebhookGate(Protocol):
    """Decides which URLs may be named."""

    async def check(self, url: str, uid: int) -> None:
        """See that a user may have messages sent there.

        Raises: RequestError ``webhook.invalid``, ``webhook.not_allowed``, ``quota.webhooks`` (retryable).
        """
        ...
