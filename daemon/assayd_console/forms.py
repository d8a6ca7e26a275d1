"""What a browser sends: one form, URL-encoded, of a bounded size."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from assayd.errors import RequestError

BODY_BYTES = 48 * 2**20
"""A submission of the largest body that the daemon takes, each byte of it in three."""
MOST_FIELDS = 1000


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form; of a name that comes twice, the last. Raises: RequestError."""
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
    # A browser sends every line end of a text as two characters.
    return {name: value.replace("\r\n", "\n") for name, value in pairs}
