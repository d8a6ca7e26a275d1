import hashlib
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import Any

import pytest

from assayd.batches.receiving import LineCaps, LineReceiver, LineSplitter, RawLine
from assayd.byte_budget import SMALL_BYTES, ByteBudget


def cut(*pieces: bytes, most_bytes: int = 100) -> list[RawLine]:
    cutter = LineSplitter(most_bytes)
    return [line for piece in pieces for line in cutter.feed(piece)] + list(cutter.end())


def shown(lines: list[RawLine]) -> list[tuple[int, bytes | None]]:
    return [(line.number, line.text) for line in lines]


TEXT = b'{"a":1}\n\n  \r\n{"b":2}\r\nlast'


@pytest.mark.parametrize("size", [1, 2, 5, len(TEXT)])
def test_lines_are_the_same_whatever_the_pieces(size: int) -> None:
    pieces = [TEXT[n : n + size] for n in range(0, len(TEXT), size)]
    assert shown(cut(*pieces)) == [(1, b'{"a":1}'), (4, b'{"b":2}\r'), (5, b"last")]


def test_nothing_is_no_line() -> None:
    assert cut(b"") == cut(b"\n\n \t\n") == []


@pytest.mark.parametrize("size", [1, 64])
def test_line_that_is_too_long_keeps_its_number_and_digest_and_nothing_else(size: int) -> None:
    long = bytes(range(97, 123)) * 10
    text = b"a\n" + long + b"\nb"
    lines = cut(*(text[n : n + size] for n in range(0, len(text), size)))
    assert shown(lines) == [(1, b"a"), (2, None), (3, b"b")]
    assert lines[1].digest == hashlib.sha256(long).hexdigest()


def test_line_of_just_the_length_is_kept() -> None:
    assert shown(cut(b"x" * 100 + b"\n", most_bytes=100)) == [(1, b"x" * 100)]


def test_long_line_is_not_held_in_memory() -> None:
    cutter = LineSplitter(1000)
    for _ in range(100):
        assert list(cutter.feed(b"x" * 500)) == []
        assert len(cutter._rest.text) <= 1000


class RecordingBudget(ByteBudget):
    """Records the texts that waited for a turn to be parsed."""

    def __init__(self) -> None:
        super().__init__(2**30)
        self.parsed: list[tuple[int, int]] = []

    def wait_to_parse(self, uid: int, size: int = 0) -> AbstractAsyncContextManager[None]:
        self.parsed.append((uid, size))
        return super().wait_to_parse(uid, size)


@pytest.mark.parametrize(("size", "parsed"), [(SMALL_BYTES + 1, [(7, SMALL_BYTES + 1)]), (100, [])])
async def test_only_long_lines_are_parsed_at_their_users_turn(
    size: int, parsed: list[tuple[int, int]]
) -> None:
    budget = RecordingBudget()
    parts: dict[str, Any] = dict.fromkeys(("store", "jobs", "admission", "ids", "image_digest", "sees"))
    batch: Any = SimpleNamespace(peer=SimpleNamespace(uid=7))
    receiver = LineReceiver(batch, **parts, budget=budget, kinds={}, caps=LineCaps())
    [line] = await receiver._read_lines([RawLine(number=1, text=b"{" * size, digest="d")])
    assert line.error is not None
    assert budget.parsed == parsed
