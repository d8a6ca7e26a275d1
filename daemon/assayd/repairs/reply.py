"""Reads a model's reply: strict JSON {patched_code, fix_reason}, wherever in the text it stands.

The reply is a stranger's text: it is sized, taken apart without running anything, and refused when it is not
exactly one answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from assayd.errors import ProviderError

MAX_REPLY_CHARS = 2 * 2**20
MAX_REASON_CHARS = 2000
MOST_STARTS = 50
"""How many braces are tried as the beginning of the object."""

_FENCE = re.compile(r"^```[a-zA-Z]*[ \t]*\n(?P<inside>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """What a model proposes."""

    code: str
    reason: str


def read_reply(text: str) -> Patch:
    """Return the patch that a reply holds: as plain JSON, in a fence, or among prose.

    Raises: ProviderError ``provider.reply`` (retryable) when there is none.
    """
    if len(text) > MAX_REPLY_CHARS:
        raise _refused("is too long")
    for candidate in _candidates(text):
        if (patch := _patch(candidate)) is not None:
            return patch
    raise _refused('holds no JSON object with "patched_code" and "fix_reason"')


def _candidates(text: str) -> Iterator[object]:
    """Return every JSON object that the text may mean, the likeliest first."""
    decoder = json.JSONDecoder()
    for place in (text.strip(), *(found["inside"].strip() for found in _FENCE.finditer(text))):
        try:
            yield json.loads(place)
        except (ValueError, RecursionError):
            continue
    for start in [found.start() for found in re.finditer(r"\{", text)][:MOST_STARTS]:
        try:
            yield decoder.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            continue


def _patch(candidate: object) -> Patch | None:
    if not isinstance(candidate, dict):
        return None
    code, reason = candidate.get("patched_code"), candidate.get("fix_reason", "")
    if not isinstance(code, str) or not isinstance(reason, str) or not code.strip():
        return None
    try:
        code.encode()
    except UnicodeEncodeError:
        return None
    reason = "".join(c if c.isprintable() else " " for c in reason)
    return Patch(code=code, reason=reason[:MAX_REASON_CHARS])


def _refused(why: str) -> ProviderError:
    return ProviderError("provider.reply", f"the reply {why}", retryable=True)
