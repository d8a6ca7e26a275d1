"""Signatures of messages, in the form of Standard Webhooks, which libraries can check. Pure.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from datetime import datetime

PREFIX = "whsec_"
LEAST_BYTES, MOST_BYTES = 24, 64


def read_secret(text: str) -> bytes:
    """Return the key that a secret stands for. Raises: ValueError, without a word of it."""
    try:
        key = b64decode(text.removeprefix(PREFIX), validate=True)
    except NotBase64:
        raise ValueError(
            "it is not whsec_ and base64; make one: echo whsec_$(head -c 32 /dev/urandom | base64)"
        ) from None
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise ValueError(
            f"it has {len(key)} bytes, and needs {LEAST_BYTES} to {MOST_BYTES}; "
            "make one: echo whsec_$(head -c 32 /dev/urandom | base64)"
        )
    return key


def signed_headers(key: bytes, message_id: str, body: bytes, at: datetime) -> Mapping[str, str]:
    """Return the headers that say which message this is, when it was sent, and that it is ours."""
    seconds = str(int(at.timestamp()))
    content = b".".join((message_id.encode(), seconds.encode(), body))
    signature = b64encode(hmac.digest(key, content, "sha256")).decode()
    return {"webhook-id": message_id, "webhook-timestamp": seconds, "webhook-signature": f"v1,{signature}"}
