"""A stream's beginning, end and length."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assayd.guest.streams import OutputCapture


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(0, 50))
def test_head_and_tail_are_what_the_stream_began_and_ended_with(pieces: list[bytes], kept: int) -> None:
    capture = OutputCapture(kept)
    whole = b"".join(pieces)

    head = b"".join(map(capture.feed, pieces))
    tail = capture.tail()

    assert capture.total_bytes == len(whole)
    assert head == whole[: kept // 2]
    assert tail == whole[len(head) :][max(len(whole) - len(head) - kept // 2, 0) :]
