"""Sends messages to webhooks, with allowed receivers, signatures, and delivery."""

from assayd.webhooks.sender import Receiver, WebhookLimits, WebhookSender

__all__ = ["Receiver", "WebhookSender", "WebhookLimits"]
