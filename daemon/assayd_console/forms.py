"""Reads the forms that browsers submit, which are URL-encoded and limited in size."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from assayd.errors import RequestError

BODY_BYTES = 48 * 2**20
"""Maximum bytes: the daemon's largest body, with each byte encoded as three."""
MOST_FIELDS = 1000


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form, with the last value of a repeated field. Raises: RequestError."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise RequestError("invalid", "a form must be application/x-www-form-urlencoded")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES:
            raise RequestError("too_large", f"the form exceeds {BODY_BYTES} bytes; submit it with `assay`")
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"
        )
    except (UnicodeDecodeError, ValueError) as error:
        raise RequestError("invalid", f"the form can't be read: {error}") from error
    # Browsers send CRLF line endings.
    return {name: value.replace("\r\n", "\n") for name, value in pairs}
