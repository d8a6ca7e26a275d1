"""The frame codec: frames are encoded and decoded without loss, and nothing else is accepted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.guest.frames import (
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    FrameDecoder,
    FrameError,
    encode_frame,
    split_into_bodies,
)

HEADERS = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3).map(
    lambda fields: {**fields, "type": "x"}
)


@given(st.lists(st.tuples(HEADERS, st.binary(max_size=50)), max_size=5), st.integers(1, 30))
def test_frames_survive_any_cut(frames: list[tuple[dict[str, object], bytes]], size: int) -> None:
    stream = b"".join(encode_frame(header, body) for header, body in frames)
    decoder = FrameDecoder()

    decoded = [
        frame for start in range(0, len(stream), size) for frame in decoder.feed(stream[start : start + size])
    ]

    assert (decoded, decoder.buffered_bytes) == (frames, 0)


@pytest.mark.parametrize(
    "header", [b"{}", b"[]", b'{"type": 1}', b"{", b"\xff", b'"type"', b"[" * 50_000]
)  # fmt: skip
def test_header_that_is_no_typed_object_is_refused(header: bytes) -> None:
    with pytest.raises(FrameError):
        list(FrameDecoder().feed(len(header).to_bytes(4, "big") + bytes(4) + header))


@pytest.mark.parametrize(
    "lengths", [(MAX_HEADER_BYTES + 1, 0), (2, MAX_BODY_BYTES + 1), (2**32 - 1, 2**32 - 1)]
)
def test_lengths_over_the_caps_are_refused_before_anything_is_held(lengths: tuple[int, int]) -> None:
    decoder = FrameDecoder()

    with pytest.raises(FrameError, match="over the cap"):
        list(decoder.feed(b"".join(length.to_bytes(4, "big") for length in lengths)))


def test_frame_over_the_caps_is_not_sent() -> None:
    with pytest.raises(FrameError, match="too large"):
        encode_frame({"type": "x"}, bytes(MAX_BODY_BYTES + 1))


def test_chunks_cover_the_content() -> None:
    assert list(split_into_bodies(b"abcde", 2)) == [b"ab", b"cd", b"e"]
    assert list(split_into_bodies(b"")) == [b""]
