"""Messages to webhooks: allowed receivers, signatures, and delivery."""

from assayd.webhooks.receivers import Receiver
from assayd.webhooks.sender import Sender, WebhookLimits

__all__ = ["Receiver", "Sender", "WebhookLimits"]
