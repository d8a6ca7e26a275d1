"""Sends messages to webhooks, with allowed receivers, signatures, and delivery."""

from assayd.webhooks.delivering import Receiver
from assayd.webhooks.sender import WebhookLimits, WebhookSender

__all__ = ["Receiver", "WebhookSender", "WebhookLimits"]
