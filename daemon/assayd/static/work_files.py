"""Defines the format of files in a submission: text, or bytes encoded as base64."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


def _check_base64(text: str) -> str:
    try:
        base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("isn't valid base64") from None
    return text


Base64Text = Annotated[str, AfterValidator(_check_base64)]


class Encoded(BaseModel):
    """A file whose content isn't text and is therefore encoded as base64."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    base64: Base64Text


FileContent = str | Encoded


HEAD_BYTES = 4095
"""Bytes of a file's head; a multiple of 3, so that its base64 can be decoded separately."""


def decode_head(given: FileContent) -> bytes:
    """Return the first `HEAD_BYTES` bytes of a file, or more bytes if its text isn't ASCII."""
    if isinstance(given, Encoded):
        return base64.b64decode(given.base64[: HEAD_BYTES // 3 * 4])
    return given[:HEAD_BYTES].encode("utf-8")


def decode_content(given: FileContent) -> bytes:
    """Return a file's content as bytes."""
    return base64.b64decode(given.base64) if isinstance(given, Encoded) else given.encode("utf-8")
