"""Finds the listed receiver of a webhook URL, and signs messages to the receiver. Performs no I/O."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network, ip_address

from assayd.egress.addresses import is_public
from assayd.model.webhook import WebhookUrl

Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """A receiver that the operator lists. It covers every URL at or below `url`, and has a signing key.

    `private` contains the non-public addresses to which the host name may resolve. Without TLS, only these
    addresses are allowed.
    """

    name: str
    url: WebhookUrl
    key: bytes = field(repr=False)
    private: tuple[Network, ...] = ()

    def reachable(self, addresses: Iterable[str]) -> tuple[str, ...]:
        """Return the addresses of the receiver's host to which connections are allowed."""
        return tuple(address for address in addresses if self._is_allowed_address(address))

    def _is_allowed_address(self, text: str) -> bool:
        if is_public(text):
            return self.url.scheme == "https"
        try:
            address = ip_address(text)
        except ValueError:
            return False
        return any(address in network for network in self.private)


def find_receiver(url: WebhookUrl, receivers: Sequence[Receiver]) -> Receiver | None:
    """Return the receiver with the longest path among those that cover a URL, or None."""
    covering = [receiver for receiver in receivers if receiver.url.covers(url)]
    return max(covering, key=lambda receiver: len(receiver.url.path), default=None)


PREFIX = "whsec_"
LEAST_BYTES, MOST_BYTES = 24, 64


def read_secret(text: str) -> bytes:
    """Return the key that a secret encodes.

    Raises: ValueError, with a message that doesn't contain the secret.
    """
    try:
        key = b64decode(text.removeprefix(PREFIX), validate=True)
    except NotBase64:
        raise ValueError(
            "it must be whsec_ and base64; create one: echo whsec_$(head -c 32 /dev/urandom | base64)"
        ) from None
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise ValueError(
            f"it has {len(key)} bytes, but needs {LEAST_BYTES} to {MOST_BYTES}; "
            "create one: echo whsec_$(head -c 32 /dev/urandom | base64)"
        )
    return key


def signed_headers(key: bytes, message_id: str, body: bytes, at: datetime) -> Mapping[str, str]:
    """Return the HTTP headers that contain the message's id, time and signature."""
    seconds = str(int(at.timestamp()))
    content = b".".join((message_id.encode(), seconds.encode(), body))
    signature = b64encode(hmac.digest(key, content, "sha256")).decode()
    return {"webhook-id": message_id, "webhook-timestamp": seconds, "webhook-signature": f"v1,{signature}"}
