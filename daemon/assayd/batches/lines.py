"""From the bytes of a batch to its lines, whatever the pieces that they come in. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from assayd.errors import RequestError
from assayd.model.submission import Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class RawLine:
    """One line with its number, from 1. `text` is None for one that is too long; `digest` is of its bytes."""

    number: int
    text: bytes | None
    digest: str


@dataclass(slots=True)
class _Rest:
    """A line that has not ended yet."""

    text: bytearray = field(default_factory=bytearray)
    length: int = 0
    seen: hashlib._Hash = field(default_factory=hashlib.sha256)

    def add(self, piece: bytes, most_bytes: int) -> None:
        self.length += len(piece)
        self.seen.update(piece)
        if self.length <= most_bytes:
            self.text += piece
        else:
            self.text.clear()


class LineCutter:
    """Cuts bytes into lines. Blank lines are counted and left out.

    Args:
        most_bytes: the length of a line; of one that is longer nothing is kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._rest = _Rest()
        self._number = 0

    @property
    def held(self) -> int:
        """Return how many bytes of an unended line are kept."""
        return len(self._rest.text)

    def feed(self, data: bytes) -> Iterator[RawLine]:
        """Return the lines that end in these bytes."""
        *ended, last = data.split(b"\n")
        for piece in ended:
            self._rest.add(piece, self._most_bytes)
            yield from self.end()
        self._rest.add(last, self._most_bytes)

    def end(self) -> Iterator[RawLine]:
        """Return the line that has come so far, if any: at the end of the bytes it needs no line break."""
        rest, self._rest = self._rest, _Rest()
        self._number += 1
        if rest.length > self._most_bytes:
            yield RawLine(number=self._number, text=None, digest=rest.seen.hexdigest())
        elif rest.text.strip():
            yield RawLine(number=self._number, text=bytes(rest.text), digest=rest.seen.hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLine:
    """A line with its submission, or with why there is none."""

    raw: RawLine
    submission: Submission | None = None
    refusal: RequestError | None = None


def read_line(raw: RawLine, read: Callable[[bytes], Submission], most_bytes: int) -> ReadLine:
    """Read one line; what is wrong with it is said of this line alone."""
    if raw.text is None:
        refusal = RequestError("too_large", f"the line is longer than {most_bytes} bytes")
        return ReadLine(raw=raw, refusal=refusal)
    try:
        return ReadLine(raw=raw, submission=read(raw.text))
    except RequestError as refusal:
        return ReadLine(raw=raw, refusal=refusal)
