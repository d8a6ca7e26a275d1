"""Sends messages to webhooks, with allowed receivers, signatures, and delivery."""

from assayd.webhooks.delivering import Receiver
from assayd.webhooks.sender import Sender, WebhookLimits

__all__ = ["Receiver", "Sender", "WebhookLimits"]
