"""Parses answers of APIs, with their common fields and their streamed text.

Streamed text is used only for display to followers. Therefore, server-sent events are read line by line, up
to `MOST_HEARD_BYTES` in total, and invalid events are skipped. Afterwards, `reading.py` parses the complete
answer separately.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from assayd_chains.model import ReplyCost
from assayd_chains.provider import Heard

if TYPE_CHECKING:
    import httpx2

MOST_TOKENS = 2**53
MOST_HEARD_BYTES = 2**20
_DATA = b"data:"
_DONE = b"[DONE]"
Event = dict[str, object]
TextOf = Callable[[Event], str]
"""Returns the text that an event of a vendor adds to the answer."""


class StopReason(StrEnum):
    """The reason why a model stopped its output."""

    COMPLETE = "complete"
    """It had said what it wanted."""
    CUT_OFF = "cut_off"
    """The answer met its limit of tokens."""
    REFUSED = "refused"
    """The model, or a filter before or behind it, does not want to."""
    EMPTY = "empty"
    """The provider returned no answer and no reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAnswer:
    """The parsed answer of an API. `word` is the API's name for the stop reason."""

    text: str
    ending: StopReason
    word: str = ""
    usage: ReplyCost = ReplyCost()


def parse_token_count(value: object) -> int | None:
    """Return a number of tokens, or None if the number is invalid or impossibly large."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


async def receive_answer(response: httpx2.Response, text_of: TextOf, heard: Heard) -> bytes:
    """Read the complete body of an answer, and pass on its text as it arrives.

    Raises: httpx2.HTTPError.
    """
    listener, whole = AnswerListener(text_of, heard), bytearray()
    async for piece in response.aiter_raw():
        whole += piece
        listener.add_bytes(piece)
    return bytes(whole)


class AnswerListener:
    """A receiver that parses an answer's bytes as they arrive and passes on the text."""

    def __init__(self, text_of: TextOf, heard: Heard) -> None:
        self._text_of, self._heard = text_of, heard
        self._left = MOST_HEARD_BYTES
        self._line = bytearray()

    def add_bytes(self, piece: bytes) -> None:
        """Add received bytes, which can end at any position in an event."""
        piece = piece[: max(self._left, 0)]
        self._left -= len(piece)
        self._line += piece
        if b"\n" not in piece:
            return
        *lines, rest = bytes(self._line).split(b"\n")
        self._line = bytearray(rest)
        for line in lines:
            with suppress(ValueError, RecursionError):
                for event in _parse_events([line]):
                    if text := self._text_of(event):
                        self._heard(text)


def is_streamed(content: bytes) -> bool:
    """Return whether an answer is a sequence of server-sent events, which servers needn't send."""
    return content.lstrip()[:6].startswith((b"event:", b"data:", b":"))


def parse_events(content: bytes) -> list[Event]:
    """Return the events of a complete answer. Raises: ValueError, if an event is malformed."""
    return list(_parse_events(content.split(b"\n")))


def _parse_events(lines: list[bytes]) -> Iterator[Event]:
    for line in lines:
        told = line.strip().removeprefix(_DATA).strip() if line.startswith(_DATA) else b""
        if told and told != _DONE:
            event = json.loads(told)
            if not isinstance(event, dict):
                raise ValueError("an event isn't a JSON object")
            yield event


def get_part(event: object, *path: str | int) -> object:
    """Return the value at a path in an event, or None if the path doesn't exist."""
    for step in path:
        if isinstance(step, str) and isinstance(event, dict):
            event = event.get(step)
        elif isinstance(step, int) and isinstance(event, list) and len(event) > step:
            event = event[step]
        else:
            return None
    return event


def get_text(event: object, *path: str | int) -> str:
    """Return the text at a path in an event, or an empty string."""
    found = get_part(event, *path)
    return found if isinstance(found, str) else ""
