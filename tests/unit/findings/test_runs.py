"""The finding for a unit that reached its time limit."""

from __future__ import annotations

import pytest

from assayd.findings.retry_context import build_retry_context
from assayd.findings.runs import (
    COMPUTING_HINT,
    SLOWED_HINT,
    STARVED,
    WAITING,
    build_timeout_finding,
    point_to_endless_loops,
)
from assayd.model.run import Cause, ResourceUsage, RunOutcome, UnitEndReason, UnitResult


def late(
    wall_s: float, cpu_s: float, starved_s: float, end: UnitEndReason = UnitEndReason.DEADLINE
) -> UnitResult:
    outcome = RunOutcome(
        cause=Cause.TIMEOUT, evidence={"limit_s": 5.0} if end is UnitEndReason.DEADLINE else {}
    )
    usage = ResourceUsage(wall_s=wall_s, cpu_s=cpu_s, starved_s=starved_s)
    return UnitResult(name="u", wait_status=9, end=end, usage=usage, outcome=outcome)


@pytest.mark.parametrize(
    ("unit", "words", "hint"),
    [
        (late(5.01, 4.98, 0.0), "(limit 5 s): it used 5 s of processor time.", COMPUTING_HINT),
        (late(11.2, 4.97, 6.2), "(limit 5 s): it used 5 s of processor time.", COMPUTING_HINT),
        (late(11.2, 2.0, 9.2), "it computed for 2 s and waited 9.2 s for a processor.", SLOWED_HINT),
        (late(8.0, 4.97, 3.0), "(limit 5 s): it used 5 s of processor time.", COMPUTING_HINT),
        (late(1.4, 5.0, 0.0), "(limit 5 s): it used 5 s of processor time.", COMPUTING_HINT),
        (
            late(5.0, 0.02, 0.01),
            "(limit 5 s): it waited 5 s without computing.",
            WAITING,
        ),
        (late(15.0, 0.1, 14.8), "(limit 5 s): it waited 15 s for a processor.", STARVED),
        (
            late(5.0, 2.0, 0.0),
            "it waited 3 s without computing and used 2 s",
            WAITING,
        ),
        (
            late(58.0, 57.0, 0.0, UnitEndReason.INTERRUPTED),
            "(limit of the whole attempt): it used 57 s",
            COMPUTING_HINT,
        ),
        (
            late(0.0, 0.0, 0.0, UnitEndReason.INTERRUPTED),
            "The code ran out of time (limit of the whole attempt).",
            COMPUTING_HINT,
        ),
    ],
)
def test_words_and_hint_follow_what_the_time_went_into(unit: UnitResult, words: str, hint: str) -> None:
    finding = build_timeout_finding(unit, "The code")
    assert (finding.rule, finding.suggestion) == ("sandbox.timeout", hint)
    assert words in finding.message


LOOP = """\
def extract(file, page=1):
    while not file.endswith(str(page)):
        page += 2
    return page
"""


@pytest.mark.parametrize(
    ("unit", "suggestion"),
    [
        (
            late(5.01, 4.98, 0.0),
            "Check the loop on line 2: every iteration must move closer to its exit condition.",
        ),
        (
            late(15.3, 0.9, 14.4),
            "Check that the loop on line 2 ends. If it does, submit it again: the machine was busy.",
        ),
        (
            late(15.3, 0.1, 15.2),
            "Check that the loop on line 2 ends. If it does, submit it again: the machine was busy.",
        ),
        (
            late(10.0, 0.2, 6.0),
            "Check that the loop on line 2 ends. "
            "If it does, look for a sleep, a lock or a read that never ends.",
        ),
    ],
)
def test_only_loop_is_the_first_cause_whatever_the_time_went_into(unit: UnitResult, suggestion: str) -> None:
    finding = point_to_endless_loops(build_timeout_finding(unit, "The code"), LOOP)
    assert (finding.suggestion, finding.line) == (suggestion, 2)
    assert finding.snippet == "    while not file.endswith(str(page)):"
    assert suggestion in build_retry_context((finding,), headline="It failed:")


def test_several_loops_are_named_without_a_line() -> None:
    finding = point_to_endless_loops(build_timeout_finding(late(15.3, 0.9, 14.4), "The code"), LOOP + LOOP)
    assert finding.line is None
    assert (finding.suggestion or "").startswith("Check that the loops on lines 2, 6 end. If they do, submit")


def test_source_without_loops_that_waited_for_a_processor_is_submitted_again() -> None:
    finding = point_to_endless_loops(
        build_timeout_finding(late(15.3, 0.9, 14.4), "The code"), "n = sum(range(9))\n"
    )
    assert finding.suggestion == STARVED


def test_thread_that_keeps_the_program_running_is_named() -> None:
    waited = build_timeout_finding(late(5.0, 0.02, 0.01), "The code")
    assert "daemon=True" in (
        point_to_endless_loops(waited, "threading.Thread(target=f).start()").suggestion or ""
    )


def test_for_loop_is_not_named() -> None:
    computed = build_timeout_finding(late(5.01, 4.98, 0.0), "The code")
    assert point_to_endless_loops(computed, "for x in y: pass") == computed
