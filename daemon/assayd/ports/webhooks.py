"""The interface for checking the webhook URLs of submissions."""

from __future__ import annotations

from typing import Protocol


class WebhookGate(Protocol):
    """A check whether a webhook URL is allowed."""

    async def check(self, url: str, uid: int) -> None:
        """Ensure that a user can have messages sent to a URL.

        Raises: RequestError ``webhook.invalid``, ``webhook.not_allowed``, ``quota.webhooks`` (retryable).
        """
        ...
