"""Messages to webhooks: who may be told, how a message is signed, and how it gets there."""

from assayd.webhooks.receivers import Receiver
from assayd.webhooks.sender import Sender, WebhookLimits

__all__ = ["Receiver", "Sender", "WebhookLimits"]
