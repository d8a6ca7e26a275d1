"""Which results are judged in a thread."""

from __future__ import annotations

import pytest

from assayd.attempts.conclusion import LARGE_BYTES, LARGE_PART_COUNT, is_large_result
from assayd.model.run import Cause, PolicyEvent, RunEndReason, RunOutcome, RunResult, UnitResult

COMPLETED = RunOutcome(cause=Cause.COMPLETED)
EVENT = PolicyEvent(kind="import", detail="os", allowed=False, enforced=True)


def unit(record: bytes = b"{}", events: int = 0) -> UnitResult:
    return UnitResult(name="u", wait_status=0, results=(record,), events=(EVENT,) * events, outcome=COMPLETED)


@pytest.mark.parametrize(
    ("units", "large"),
    [
        ([unit()], False),
        ([unit(b"x" * (LARGE_BYTES + 1))], True),
        ([unit()] * LARGE_PART_COUNT, True),
        ([unit(events=LARGE_PART_COUNT)], True),
        ([unit(b'{"each": [' + b"{}," * LARGE_PART_COUNT + b"{}]}")], True),
    ],
    ids=["small", "bytes", "units", "events", "results of calls"],
)
def test_result_of_many_parts_or_bytes_is_large(units: list[UnitResult], large: bool) -> None:
    assert (
        is_large_result(RunResult(units=tuple(units), end=RunEndReason.FINISHED, outcome=COMPLETED)) is large
    )
