"""Messages that are sent to a runner before its turn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assayd.guest.frames import FrameDecoder
from assayd.model.policy import NetworkMode, NetworkPolicy
from assayd.model.run import Limits, Program, RunSpec, Unit
from assayd.sandbox.channel import AHEAD_BYTES, SendAheadWindow

UNIT = Unit(name="one", program=Program.CALL, arguments={"source": "x" * 1000}, deadline_s=1.0)
LIMITS = Limits(timeout_s=10.0, unit_timeout_s=1.0, memory_bytes=2**26, max_processes=1)
SPEC = RunSpec(image="python", limits=LIMITS, units=(UNIT,) * 3)


def kinds(portion: bytes) -> list[object]:
    """Return the types of the frames in these bytes."""
    return [header["type"] for header, _ in FrameDecoder().feed(portion)]


def test_units_that_fit_a_pipe_are_sent_at_once_with_the_end() -> None:
    ahead = SendAheadWindow(SPEC)

    assert kinds(ahead.pop_due_frames()) == ["unit", "unit", "unit", "finish"]
    for _ in SPEC.units:
        ahead.ended()
    assert (ahead.pop_due_frames(), ahead.finish()) == (b"", b"")


def test_no_more_is_sent_ahead_than_half_a_pipe_holds() -> None:
    large = replace(UNIT, arguments={"source": "x" * (AHEAD_BYTES // 2 - 1000)})
    ahead = SendAheadWindow(replace(SPEC, units=(large,) * 4))

    assert [kinds(ahead.pop_due_frames())] == [["unit", "unit"]]
    ahead.ended()
    assert kinds(ahead.pop_due_frames()) == ["unit"]


def test_a_unit_larger_than_a_pipe_waits_for_its_turn() -> None:
    large = replace(UNIT, arguments={"source": "x" * 2 * AHEAD_BYTES})
    ahead = SendAheadWindow(replace(SPEC, units=(UNIT, large, UNIT)))

    assert kinds(ahead.pop_due_frames()) == ["unit"]
    assert ahead.pop_due_frames() == b""
    ahead.ended()
    assert kinds(ahead.pop_due_frames()) == ["unit"]


@pytest.mark.parametrize(
    "spec",
    [
        replace(SPEC, stop_on_failure=True),
        replace(SPEC, network=NetworkPolicy(mode=NetworkMode.ALLOWLIST)),
        replace(SPEC, units=(replace(UNIT, log="one"), UNIT)),
    ],
    ids=["stops at a failure", "allowlist", "a log for the next"],
)
def test_where_the_next_depends_on_the_one_before_units_go_one_by_one(spec: RunSpec) -> None:
    ahead = SendAheadWindow(spec)

    assert kinds(ahead.pop_due_frames()) == ["unit"]
    assert ahead.pop_due_frames() == b""
    ahead.ended()
    assert kinds(ahead.finish()) == ["finish"]
    assert kinds(ahead.pop_due_frames()) == ["unit"]
