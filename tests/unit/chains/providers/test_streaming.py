"""Streamed answers: received piece by piece, and read as a whole."""

from __future__ import annotations

import json

import pytest

from assayd_chains.providers import anthropic, openai
from assayd_chains.providers.answers import MAX_STREAMED_BYTES, StopReason, StreamingAnswerParser
from support.hosts.model_api import ANTHROPIC, OPENAI, Vendor

TEXT = '{"code": "ä = 1\\n", "reason": "r"}'
VENDORS = pytest.mark.parametrize(
    ("vendor", "adapter"), [(ANTHROPIC, anthropic), (OPENAI, openai)], ids=["anthropic", "openai"]
)


def heard_of(adapter: object, *pieces: bytes) -> list[str]:
    heard: list[str] = []
    listener = StreamingAnswerParser(adapter.extract_event_text, heard.append)  # type: ignore[attr-defined]
    for piece in pieces:
        listener.add_bytes(piece)
    return heard


@VENDORS
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_text_is_heard_wherever_the_bytes_are_cut(vendor: Vendor, adapter: object, size: int) -> None:
    stream = vendor.streamed(TEXT)
    heard = heard_of(adapter, *(stream[at : at + size] for at in range(0, len(stream), size)))
    assert len(heard) > 2
    assert "".join(heard) == TEXT


@VENDORS
def test_what_is_no_event_is_passed_over(vendor: Vendor, adapter: object) -> None:
    noise = b"data: {\ndata: [1]\n: beat\nevent: x\ndata: " + b"[" * 100_000 + b"\ndata: null\n"
    assert "".join(heard_of(adapter, noise + vendor.streamed(TEXT))) == TEXT


@VENDORS
def test_no_more_is_looked_at_than_the_bound(vendor: Vendor, adapter: object) -> None:
    assert heard_of(adapter, b"x" * MAX_STREAMED_BYTES, b"\n" + vendor.streamed(TEXT)) == []


@VENDORS
def test_whole_stream_is_read_as_the_answer_that_it_is(vendor: Vendor, adapter: object) -> None:
    answer = adapter.parse_response(vendor.streamed(TEXT))  # type: ignore[attr-defined]
    assert (answer.text, answer.ending) == (TEXT, StopReason.COMPLETE)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (11, 7)


@VENDORS
def test_stream_that_is_cut_short_is_no_answer(vendor: Vendor, adapter: object) -> None:
    lines = vendor.streamed(TEXT).split(b"\n\n")
    with pytest.raises(ValueError, match="cut short"):
        adapter.parse_response(b"\n\n".join(lines[:3]) + b"\n\n")  # type: ignore[attr-defined]


def test_endings_of_a_stream_are_told_as_those_of_a_whole_answer() -> None:
    refused = OPENAI.streamed("").replace(b'"stop"', b'"content_filter"')
    assert openai.parse_response(refused).ending is StopReason.REFUSED
    assert (
        openai.parse_response(OPENAI.streamed(TEXT).replace(b'"stop"', b'"length"')).ending
        is StopReason.CUT_OFF
    )
    late = ANTHROPIC.streamed(TEXT).replace(b'"end_turn"', b'"max_tokens"')
    assert anthropic.parse_response(late).ending is StopReason.CUT_OFF


def test_failure_within_a_stream_is_no_answer() -> None:
    error = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "later"}})
    with pytest.raises(ValueError, match="cut short"):
        anthropic.parse_response(f"event: error\ndata: {error}\n\n".encode())
