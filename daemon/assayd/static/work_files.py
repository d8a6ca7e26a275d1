"""Files that a submission brings along: text, or bytes in base64."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


def _base64_text(text: str) -> str:
    try:
        base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("is not base64") from None
    return text


Base64Text = Annotated[str, AfterValidator(_base64_text)]


class Encoded(BaseModel):
    """A file whose content is not text."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    base64: Base64Text


FileContent = str | Encoded


def content_of(given: FileContent) -> bytes:
    """Return a file's bytes."""
    return base64.b64decode(given.base64) if isinstance(given, Encoded) else given.encode("utf-8")
