"""The next step of a chain, as a table of histories."""

from datetime import UTC, datetime, timedelta

import pytest

from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd_chains.decide import AskProvider, StopChain, decide_next_step
from assayd_chains.model import (
    Answer,
    BudgetGrant,
    Chain,
    ChainRound,
    Failure,
    GenerationRequest,
    Outcome,
    Strategy,
)

BEGAN = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
FIX, DIFFERENT, RETHINK = (
    AskProvider(strategy=s) for s in (Strategy.FIX, Strategy.DIFFERENT, Strategy.RETHINK)
)


WRITE = AskProvider(strategy=Strategy.WRITE)


def failed(fingerprint: str, *, cause: str = "exited_nonzero", verdict: Verdict = Verdict.FAILED) -> Answer:
    return fix(fingerprint=fingerprint, cause=cause, verdict=verdict, attempt_id="A")


def fix(**given: object) -> Answer:
    blank = {"number": 1, "strategy": Strategy.FIX, "asked_at": BEGAN, "reason": ""}
    return Answer(**{**blank, "passage": "", "text": "", **given})


def draft(**given: object) -> Answer:
    return fix(strategy=Strategy.WRITE, **given)


DUPLICATE = fix(duplicate=True)
VALIDATED = fix(verdict=Verdict.VALIDATED, cause="completed", attempt_id="A")
MISFIT = fix(problem="it is too large")
NO_SUBMISSION = draft(problem="it has no code")
FAILED_DRAFT = draft(verdict=Verdict.FAILED, cause="exited_nonzero", attempt_id="D")


def chain(words: bool, most: int, *rounds: ChainRound) -> Chain:
    peer = Peer(uid=0, gid=0, pid=0)
    return Chain(
        id="C",
        kind="extractor",
        provider="rules",
        uid=0,
        max_attempts=most,
        started_at=BEGAN,
        ends_at=BEGAN + timedelta(minutes=5),
        words=GenerationRequest(peer=peer, policy="extractor", intent="words") if words else None,
        rounds=rounds,
    )


def repair(*fixes: Answer, first: str = "a", cause: str | None = None, most: int = 3) -> Chain:
    failure = Failure(attempt_id="A", at=BEGAN, fingerprint=first, digest="", cause=cause)
    return chain(False, most, ChainRound(repair_id="C", failure=failure, fixes=fixes))


def generation(*answers: Answer, first: str | None = None, most: int = 3) -> Chain:
    failure = None if first is None else Failure(attempt_id="D", at=BEGAN, fingerprint=first, digest="")
    drafts = tuple(answer for answer in answers if answer.is_draft)
    fixes = tuple(answer for answer in answers if not answer.is_draft)
    return chain(True, most, ChainRound(drafts=drafts, failure=failure, fixes=fixes))


def stop(outcome: Outcome, detail: str | None = None) -> StopChain:
    return StopChain(outcome=outcome, detail=detail)


@pytest.mark.parametrize(
    ("history", "step"),
    [
        (repair(), FIX),
        (repair(failed("b")), FIX),
        (repair(failed("a")), RETHINK),
        (repair(failed("b"), failed("a")), FIX),
        (repair(DUPLICATE), DIFFERENT),
        (repair(failed("a"), DUPLICATE), DIFFERENT),
        (repair(VALIDATED), stop(Outcome.VALIDATED)),
        (repair(failed("b"), failed("c"), VALIDATED), stop(Outcome.VALIDATED)),
        (repair(failed("b"), failed("c"), failed("d")), stop(Outcome.EXHAUSTED)),
        (repair(DUPLICATE, DUPLICATE, DUPLICATE), stop(Outcome.EXHAUSTED)),
        (repair(failed("b"), most=1), stop(Outcome.EXHAUSTED)),
        (repair(failed("a"), failed("a")), stop(Outcome.STUCK)),
        (repair(cause="policy_violation"), stop(Outcome.TERMINAL)),
        (repair(failed("b", cause="policy_violation")), stop(Outcome.TERMINAL)),
        (repair(failed("b", cause="infrastructure")), stop(Outcome.TERMINAL)),
        (repair(failed("b", verdict=Verdict.ERROR)), stop(Outcome.TERMINAL)),
        (repair(failed("b", verdict=Verdict.CANCELLED)), stop(Outcome.TERMINAL)),
        (repair(MISFIT), FIX),
        (
            repair(MISFIT, MISFIT, MISFIT),
            stop(Outcome.EXHAUSTED, "the last fix can't be used: it is too large"),
        ),
        (generation(), WRITE),
        (generation(NO_SUBMISSION), WRITE),
        (generation(*[NO_SUBMISSION] * 3), stop(Outcome.EXHAUSTED, "no answer was a submission")),
        (generation(draft(verdict=Verdict.VALIDATED, attempt_id="D")), stop(Outcome.VALIDATED)),
        (
            generation(draft(verdict=Verdict.ERROR, attempt_id="D")),
            stop(Outcome.TERMINAL, "the attempt ended as error"),
        ),
        (generation(FAILED_DRAFT, first="a"), FIX),
        (generation(NO_SUBMISSION, FAILED_DRAFT, failed("b"), first="a"), stop(Outcome.EXHAUSTED)),
        (generation(FAILED_DRAFT, first="a", most=1), stop(Outcome.EXHAUSTED)),
        (generation(FAILED_DRAFT, failed("a"), first="a"), RETHINK),
        (generation(FAILED_DRAFT, VALIDATED, first="a"), stop(Outcome.VALIDATED)),
    ],
)
def test_history_gives_the_next_step(history, step) -> None:
    assert decide_next_step(history, BEGAN) == step


def test_time_over_stops_before_another_fix_is_asked_for() -> None:
    assert decide_next_step(repair(failed("b")), BEGAN + timedelta(minutes=5)) == stop(Outcome.TIMEOUT)


def test_an_attempt_that_was_validated_in_the_last_moment_counts() -> None:
    assert decide_next_step(repair(VALIDATED), BEGAN + timedelta(hours=1)) == stop(Outcome.VALIDATED)


def test_hint_grants_a_full_budget() -> None:
    ended = ChainRound(drafts=(NO_SUBMISSION,) * 3, outcome=Outcome.EXHAUSTED)
    hinted = ChainRound(grant=BudgetGrant(uid=0, at=BEGAN, hint="h"), drafts=(NO_SUBMISSION,))
    assert decide_next_step(chain(True, 3, ended, hinted), BEGAN) == WRITE
