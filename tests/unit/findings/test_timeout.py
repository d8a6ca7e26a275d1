"""What is said of a unit that met its time limit."""

from __future__ import annotations

import pytest

from assayd.findings.timeout import COMPUTING, STARVED, WAITING, add_endless_parts, timeout_finding
from assayd.model.run import Cause, Outcome, ResourceUsage, UnitEnd, UnitResult


def late(wall_s: float, cpu_s: float, starved_s: float, end: UnitEnd = UnitEnd.DEADLINE) -> UnitResult:
    outcome = Outcome(cause=Cause.TIMEOUT, evidence={"limit_s": 5.0} if end is UnitEnd.DEADLINE else {})
    usage = ResourceUsage(wall_s=wall_s, cpu_s=cpu_s, starved_s=starved_s)
    return UnitResult(name="u", wait_status=9, end=end, usage=usage, outcome=outcome)


@pytest.mark.parametrize(
    ("unit", "words", "hint"),
    [
        (late(5.01, 4.98, 0.0), "(limit 5 s): it used 5 s of processor time.", COMPUTING),
        (late(11.2, 4.97, 6.2), "(limit 5 s): it used 5 s of processor time.", COMPUTING),
        (late(11.2, 2.0, 9.2), "it waited 9.2 s for a processor", STARVED),
        (late(8.0, 4.97, 3.0), "(limit 5 s): it used 5 s of processor time.", COMPUTING),
        (late(1.4, 5.0, 0.0), "(limit 5 s): it used 5 s of processor time.", COMPUTING),
        (
            late(5.0, 0.02, 0.01),
            "(limit 5 s): it waited 5 s without computing (a sleep, a lock or a read?).",
            WAITING,
        ),
        (late(15.0, 1.1, 13.8), "(limit 5 s): it waited 14 s for a processor.", STARVED),
        (
            late(5.0, 2.0, 0.0),
            "it waited 3 s without computing (a sleep, a lock or a read?) and used 2 s",
            WAITING,
        ),
        (late(58.0, 57.0, 0.0, UnitEnd.INTERRUPTED), "(limit of the whole attempt): it used 57 s", COMPUTING),
        (
            late(0.0, 0.0, 0.0, UnitEnd.INTERRUPTED),
            "The code ran out of time (limit of the whole attempt).",
            COMPUTING,
        ),
    ],
)
def test_words_and_hint_follow_what_the_time_went_into(unit: UnitResult, words: str, hint: str) -> None:
    finding = timeout_finding(unit, "The code")
    assert (finding.rule, finding.suggestion) == ("sandbox.timeout", hint)
    assert words in finding.message


def test_loop_or_thread_that_may_not_end_is_named() -> None:
    computed = timeout_finding(late(5.01, 4.98, 0.0), "The code")
    waited = timeout_finding(late(5.0, 0.02, 0.01), "The code")
    loop = add_endless_parts(computed, "n = 0\nwhile n < 3:\n    pass\n")
    assert (loop.line, loop.snippet) == (2, "while n < 3:")
    assert "loop on line 2" in (loop.suggestion or "")
    assert add_endless_parts(computed, "for x in y: pass") == computed
    assert "daemon=True" in (add_endless_parts(waited, "threading.Thread(target=f).start()").suggestion or "")
