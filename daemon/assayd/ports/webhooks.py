"""The check of webhook URLs that submissions name."""

from __future__ import annotations

from typing import Protocol


class WebhookGate(Protocol):
    """Decides which URLs may be named."""

    async def check(self, url: str, uid: int) -> None:
        """See that a user may have messages sent there.

        Raises: RequestError ``webhook.invalid``, ``webhook.not_allowed``, ``quota.webhooks`` (retryable).
        """
        ...
