"""What a repair does next, as a table of histories."""

from datetime import UTC, datetime, timedelta

import pytest

from assayd.model.repair import Fix, Repair, RepairOutcome, Strategy
from assayd.model.report import Verdict
from assayd.repairs.decide import AskProvider, Stop, decide

BEGAN = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
FIX, DIFFERENT, RETHINK = (
    AskProvider(strategy=s) for s in (Strategy.FIX, Strategy.DIFFERENT, Strategy.RETHINK)
)


def failed(fingerprint: str, *, cause: str = "exited_nonzero", verdict: Verdict = Verdict.FAILED) -> Fix:
    return fix(fingerprint=fingerprint, cause=cause, verdict=verdict, attempt_id="A")


def fix(**given: object) -> Fix:
    blank = {"number": 1, "strategy": Strategy.FIX, "asked_at": BEGAN, "digest": "", "reason": ""}
    return Fix(**{**blank, "passage": "", "patched_code": "", **given})


DUPLICATE = fix(duplicate=True)
VALIDATED = fix(verdict=Verdict.VALIDATED, cause="completed", attempt_id="A")


def repair(*fixes: Fix, first: str = "a", cause: str | None = None, most: int = 3) -> Repair:
    return Repair(
        id="R",
        attempt_id="A",
        kind="extractor",
        provider="rules",
        uid=0,
        max_attempts=most,
        started_at=BEGAN,
        ends_at=BEGAN + timedelta(minutes=5),
        first_fingerprint=first,
        first_digest="",
        first_cause=cause,
        fixes=fixes,
    )


@pytest.mark.parametrize(
    ("history", "step"),
    [
        (repair(), FIX),
        (repair(failed("b")), FIX),
        (repair(failed("a")), RETHINK),
        (repair(failed("b"), failed("a")), FIX),
        (repair(DUPLICATE), DIFFERENT),
        (repair(failed("a"), DUPLICATE), DIFFERENT),
        (repair(VALIDATED), Stop(outcome=RepairOutcome.REPAIRED)),
        (repair(failed("b"), failed("c"), VALIDATED), Stop(outcome=RepairOutcome.REPAIRED)),
        (repair(failed("b"), failed("c"), failed("d")), Stop(outcome=RepairOutcome.EXHAUSTED)),
        (repair(DUPLICATE, DUPLICATE, DUPLICATE), Stop(outcome=RepairOutcome.EXHAUSTED)),
        (repair(failed("b"), most=1), Stop(outcome=RepairOutcome.EXHAUSTED)),
        (repair(failed("a"), failed("a")), Stop(outcome=RepairOutcome.STUCK)),
        (repair(cause="policy_violation"), Stop(outcome=RepairOutcome.TERMINAL)),
        (repair(failed("b", cause="policy_violation")), Stop(outcome=RepairOutcome.TERMINAL)),
        (repair(failed("b", cause="infrastructure")), Stop(outcome=RepairOutcome.TERMINAL)),
        (repair(failed("b", verdict=Verdict.ERROR)), Stop(outcome=RepairOutcome.TERMINAL)),
        (repair(failed("b", verdict=Verdict.CANCELLED)), Stop(outcome=RepairOutcome.TERMINAL)),
    ],
)
def test_history_gives_the_next_step(history, step) -> None:
    assert decide(history, BEGAN) == step


def test_time_over_stops_before_another_fix_is_asked_for() -> None:
    assert decide(repair(failed("b")), BEGAN + timedelta(minutes=5)) == Stop(outcome=RepairOutcome.TIMEOUT)


def test_an_attempt_that_was_validated_in_the_last_moment_counts() -> None:
    assert decide(repair(VALIDATED), BEGAN + timedelta(hours=1)) == Stop(outcome=RepairOutcome.REPAIRED)
