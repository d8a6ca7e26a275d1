"""Parses JSON from a guest strictly, with limits slightly above those of the guest's own renderer.

`record` and the validators interpret the parsed data.
"""

from __future__ import annotations

from assayd.model.json_reader import JsonError, JsonLimits, parse_strictly
from assayd.model.submission import JsonValue
from assayd.model.text_limits import shorten

DEFAULT_LIMITS = JsonLimits(
    bytes=8 * 2**20, depth=80, containers=500_000, values=1_200_000, number_chars=1000, key_chars=4096
)


class GuestJsonError(ValueError):
    """An error for guest output that isn't acceptable JSON. The message contains the reason."""


def decode(body: bytes, limits: JsonLimits = DEFAULT_LIMITS) -> JsonValue:
    """Decode one JSON value.

    Raises: GuestJsonError for anything other than strict JSON within the limits.
    """
    try:
        return parse_strictly(body, limits)
    except JsonError as problem:
        raise GuestJsonError(shorten(f"not JSON: {problem}", 200)) from None
