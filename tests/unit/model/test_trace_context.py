"""Trace headers: valid ones are continued, and everything else is ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.model.trace_context import parse_headers, parse_text

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = f"00-{TRACE}-{SPAN}-01"


def test_valid_header_is_read() -> None:
    read = parse_headers([VALID], ["rojo=00f067aa0ba902b7", "congo=t61rcWkgMzE"])
    assert read is not None
    assert (read.trace_id, read.span_id, read.sampled) == (TRACE, SPAN, True)
    assert read.headers == {"traceparent": VALID, "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"}


def test_context_survives_being_written() -> None:
    read = parse_headers([VALID], ["a=1 2,b@c=3"])
    assert read is not None
    assert parse_text(read.text) == read


def test_caller_that_does_not_sample_is_read() -> None:
    read = parse_headers([f"00-{TRACE}-{SPAN}-00"])
    assert read is not None
    assert not read.sampled
    assert read.parent == f"00-{TRACE}-{SPAN}-00"


def test_later_version_is_read_as_the_first() -> None:
    read = parse_headers([f"cc-{TRACE}-{SPAN}-03-what-the-future-brings"])
    assert read is not None
    assert read.parent == VALID


@pytest.mark.parametrize(
    "header",
    [
        "",
        "garbage",
        VALID.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"{VALID}-more",
        f" {VALID}",
        f"{VALID}\n",
        f"{VALID}\r\nx: y",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE[:-1]}٣-{SPAN}-01",  # a digit to `str.isdigit`
        f"cc-{TRACE}-{SPAN}-01-{'x' * 4096}",
    ],
)
def test_invalid_header_is_ignored(header: str) -> None:
    assert parse_headers([header]) is None
    assert parse_text(header.split(" ")[0].strip("\n")) in {None, parse_headers([VALID])}


def test_second_header_makes_both_invalid() -> None:
    assert parse_headers([VALID, VALID]) is None
    assert parse_headers([]) is None
    assert parse_text(None) is None


@pytest.mark.parametrize(
    "states",
    [
        ["a=" + "x" * 600],
        [",".join(f"k{n}=v" for n in range(33))],
        ["a=1,a=2"],
        ["a=1,=2"],
        ["a"],
        ["A=1"],
        ["a=\n"],
        ["a=é"],
        ["a=b=c"],
        ["a=1\r\nx-evil: 1"],
    ],
)
def test_invalid_state_is_left_out_alone(states: list[str]) -> None:
    read = parse_headers([VALID], states)
    assert read is not None
    assert read.headers == {"traceparent": VALID}


@given(st.lists(st.text(max_size=80), max_size=2), st.lists(st.text(max_size=600), max_size=3))
def test_anything_is_read_without_an_error(parents: list[str], states: list[str]) -> None:
    read = parse_headers(parents, states)
    assert read is None or read.text.isascii()


@given(st.lists(st.from_regex(r"\A[a-z]{1,4}=[!-+\--<>-~]{1,200}\Z"), max_size=6))
def test_what_is_kept_can_be_a_header(states: list[str]) -> None:
    read = parse_headers([VALID], states)
    assert read is not None
    assert len(read.state) <= 512
    assert read.state.isprintable()
    assert parse_text(read.text) == read
