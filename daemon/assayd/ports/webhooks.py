"""The check of webhook URLs in submissions."""

from __future__ import annotations

from typing import Protocol


class WebhookGate(Protocol):
    """A check of which webhook URLs are allowed."""

    async def check(self, url: str, uid: int) -> None:
        """Ensure that a user can have messages sent to a URL.

        Raises: RequestError ``webhook.invalid``, ``webhook.not_allowed``, ``quota.webhooks`` (retryable).
        """
        ...
