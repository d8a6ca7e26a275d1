"""The interface for checking the webhook URLs of submissions."""

from __future__ import annotations

from typing import Protocol


class WebhookGate(Protocol):
    """A checker of webhook URLs."""

    async def check(self, url: str, uid: int) -> None:
        """Check that messages for a user can be sent to a URL.

        Raises: RequestError ``webhook.invalid``, ``webhook.not_allowed``, ``quota.webhooks`` (retryable).
        """
        ...
