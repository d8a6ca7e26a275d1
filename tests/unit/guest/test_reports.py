"""A child's reports: counted, limited, forwarded."""

from __future__ import annotations

import pytest

from assayd.guest.frames import encode_frame
from assayd.guest.streams import MAX_EVENTS, ReportReader

EVENT = {"type": "event", "kind": "open", "detail": "/x", "allowed": False, "enforced": True, "line": 3}
EVENT |= {"file": "given.py"}


def result(body: bytes, *, last: bool = True) -> bytes:
    """Return a result frame."""
    return encode_frame({"type": "result", "last": last}, body)


def test_result_in_parts_is_passed_on_as_one() -> None:
    reports = ReportReader(4, 1000)

    frames = list(reports.feed(result(b"ab", last=False) + result(b"c")))
    frames += reports.finish()

    assert frames == [
        ({"type": "result", "unit": 4, "index": 0, "last": False}, b"ab"),
        ({"type": "result", "unit": 4, "index": 0, "last": True}, b"c"),
    ]
    assert (reports.results, reports.malformed, reports.overflow) == (1, None, False)


def test_third_result_is_counted_and_not_passed_on() -> None:
    reports = ReportReader(0, 1000)

    frames = list(reports.feed(b"".join(map(result, (b"a", b"b", b"c")))))

    assert [body for _, body in frames] == [b"a", b"b"]
    assert (reports.results, reports.malformed) == (3, "more than one result")


def test_result_over_the_cap_overflows_and_is_closed() -> None:
    reports = ReportReader(0, 5)

    frames = list(reports.feed(result(b"abc", last=False) + result(b"def")))
    frames += reports.finish()

    assert [(body, header["last"]) for header, body in frames] == [(b"abc", False), (b"", True)]
    assert (reports.results, reports.overflow) == (0, True)


def test_event_is_passed_on() -> None:
    ((header, _),) = ReportReader(2, 1000).feed(encode_frame(EVENT))

    assert header == {**EVENT, "unit": 2}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": 1}, {"kind": "x" * 65}, {"detail": "x" * 513}, {"allowed": 1}, {"line": "3"}, {"line": 1.5},
        {"type": "unit_end"}, {"enforced": None}, {"line": True},
        {"line": -1}, {"line": 10**8},
    ],
)  # fmt: skip
def test_event_of_another_shape_is_malformed(change: dict[str, object]) -> None:
    reports = ReportReader(0, 1000)

    assert list(reports.feed(encode_frame({**EVENT, **change}))) == []
    assert "not a frame of a child" in str(reports.malformed)


def test_refused_events_find_room_after_many_allowed_ones() -> None:
    reports = ReportReader(0, 10**6)

    allowed = len(list(reports.feed(encode_frame({**EVENT, "allowed": True}) * 500)))
    refused = len(list(reports.feed(encode_frame(EVENT) * 500)))

    assert (allowed, refused) == (150, MAX_EVENTS - 150)
    assert reports.events_dropped == 1000 - MAX_EVENTS


def test_nothing_is_decoded_after_garbage_and_all_is_counted() -> None:
    reports = ReportReader(0, 1000)

    frames = list(reports.feed(b"\xff" * 100)) + list(reports.feed(result(b"late")))
    list(reports.feed(bytes(2 * 2**20)))

    assert (frames, reports.results, reports.overflow) == ([], 0, True)
    assert "frame over the cap" in str(reports.malformed)


def test_frame_that_ends_early_is_malformed() -> None:
    reports = ReportReader(0, 1000)
    list(reports.feed(result(b"abc")[:-1]))

    assert list(reports.finish()) == []
    assert reports.malformed == "the report ends in the middle of a frame or result"
