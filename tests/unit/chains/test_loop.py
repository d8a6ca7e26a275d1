"""The repair loop with in-memory attempts, real analysis workers and a scripted provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from assayd.analysis.analyst import AnalysisLimits, Analyst
from assayd.clock import SystemClock, UlidGenerator
from assayd.errors import ProviderError
from assayd.kinds import registry as validators
from assayd.model.attempt import Attempt, State
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd.ports.driving import ALONE
from assayd_chains.attempts import FinishedSubmission
from assayd_chains.chains import Chains
from assayd_chains.fitting import AnswerApplier
from assayd_chains.loop import ChainRun, ChainRunner
from assayd_chains.model import (
    Answer,
    BudgetGrant,
    Chain,
    ChainRound,
    Document,
    Failure,
    Outcome,
    Repair,
    Strategy,
)
from assayd_chains.provider import FixRequest, ProviderStep, Reply
from support.fakes.generation_bench import new_chains

FIRST = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
PAYLOAD = {"code": "x = 0\n", "sample_paths": ["/a"]}
Judge = Callable[[str], tuple[Verdict, str]]
"""Says of a code which verdict it gets, and with which message or cause."""


def judge(code: str) -> tuple[Verdict, str]:
    """Judge code: `x = good` is validated; anything else fails with the word after the equals sign."""
    word = code.split("=")[1].strip()
    if word == "good":
        return Verdict.VALIDATED, "completed"
    return (Verdict.ERROR if word == "lost" else Verdict.FAILED), word


class Attempts:
    """Implements `attempts.AttemptClient`: each attempt is judged on submission."""

    def __init__(self) -> None:
        self.known: dict[str, FinishedSubmission] = {}
        self.submitted: list[str] = []
        self.cancelled: list[str] = []
        self.endless = False
        self._add(FIRST, {"kind": "extractor", "payload": PAYLOAD}, 1)

    def _add(self, attempt_id: str, submission: Document, number: int) -> None:
        verdict, word = judge(submission["payload"]["code"])
        attempt = Attempt(
            id=attempt_id,
            kind="extractor",
            policy="extractor",
            input_digest="",
            created_at=datetime(2026, 5, 4, tzinfo=UTC),
            peer=Peer(uid=0, gid=0, pid=0),
            state=State.FINISHED,
            verdict=verdict,
            cause="policy_violation" if word == "evil" else "exited_nonzero",
            attempt_number=number,
        )
        finding = {"rule": "sandbox.raised", "severity": "error", "message": word}
        report = {"stage_reached": "sandbox", "findings": [finding], "retry_context": word, "fix_hints": []}
        self.known[attempt_id] = FinishedSubmission(attempt=attempt, submission=submission, report=report)

    async def submit(self, attempt_id: str, submission: Document, *, peer: Peer) -> None:
        self.submitted.append(attempt_id)
        parent = self.known[submission["parent_id"]].attempt
        self._add(attempt_id, submission, parent.attempt_number + 1)

    async def policy(self, submission: Document, *, peer: Peer) -> ExecutionPolicy:
        return ExecutionPolicy(name="policy")

    async def finished(self, attempt_id: str) -> FinishedSubmission:
        if self.endless and attempt_id != FIRST:
            raise TimeoutError  # as the repair's own clock does to whoever waits
        return self.known[attempt_id]

    async def cancel(self, attempt_id: str) -> None:
        self.cancelled.append(attempt_id)


class Power(Exception):
    """A simulated power cut."""


class Store:
    """An in-memory store of one repair; the power is cut at a given save."""

    def __init__(self, *, fails_at: int | None = None) -> None:
        self.saves: list[Chain] = []
        self.steps: dict[int, ProviderStep] = {}
        self._fails_at = fails_at

    async def save(self, chain: Chain) -> None:
        if self._fails_at is not None and len(self.saves) == self._fails_at:
            raise Power
        self.saves.append(chain)

    async def save_step(self, owner_id: str, step: ProviderStep, *, draft: bool) -> None:
        self.steps.setdefault(step.number, step)

    async def step(self, owner_id: str, number: int, *, draft: bool) -> ProviderStep | None:
        return self.steps.get(number)

    async def remove(self, chain_id: str) -> None:
        self.saves.clear()

    async def chain(self, chain_id: str) -> Chain | None:
        return self.saves[-1] if self.saves else None

    async def list_unfinished(self) -> list[Chain]:
        return [chain for chain in self.saves[-1:] if chain.outcome is None]


class Scripted:
    """Implements `provider.Provider`: gives one word after the other, or raises an error."""

    name = "scripted"

    def __init__(self, words: Iterable[str | Exception | Reply]) -> None:
        self._words = iter(words)
        self.asked: list[FixRequest] = []

    async def fix(self, request: FixRequest, *, timeout_s: float) -> Reply:
        self.asked.append(request)
        word = next(self._words)
        if isinstance(word, Exception):
            raise word
        if isinstance(word, Reply):
            return word
        return Reply(code=f"x = {word}\n", reason=f"now {word}")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def analyst() -> AsyncIterator[Analyst]:
    async with Analyst(AnalysisLimits(workers=1)).running() as analyst:
        yield analyst


pytestmark = pytest.mark.asyncio(loop_scope="module")


class Bench:
    """All parts that one repair needs."""

    def __init__(self, analyst: Analyst, *words: str | Exception | Reply) -> None:
        self.attempts, self.store, self.provider = Attempts(), Store(), Scripted(words)
        now = datetime.now(UTC)
        failure = Failure(attempt_id=FIRST, at=now)
        self.repair = Chain(
            id="R",
            kind="extractor",
            provider="scripted",
            uid=0,
            max_attempts=3,
            started_at=now,
            ends_at=now + timedelta(minutes=5),
            rounds=(ChainRound(repair_id="R", failure=failure),),
        )
        self._kinds = {"extractor": validators.find_validator("extractor")}
        self._answer_applier = AnswerApplier(
            attempts=self.attempts, analyst=analyst, kinds=self._kinds, policies=None, source_bytes=2**20
        )

    async def run(self, chain: Chain | None = None) -> Repair | None:
        loop = ChainRunner(
            attempts=self.attempts,
            store=self.store,
            fitter=self._answer_applier,
            providers={"scripted": self.provider},
            clock=SystemClock(),
            ids=UlidGenerator(),
            timeout=timedelta(minutes=5),
            driving=ALONE,
        )
        ended = await loop.run(ChainRun(chain or self.repair))
        return None if ended is None else ended.repair

    @property
    def chains(self) -> Chains:
        return new_chains(
            attempts=self.attempts,
            store=self.store,
            fitter=self._answer_applier,
            kinds=self._kinds,
            providers={"scripted": self.provider},
        )


def tried(chain: Chain) -> tuple[Answer, ...]:
    return chain.round.fixes


async def test_an_attempt_that_did_not_fail_needs_no_repair(analyst: Analyst) -> None:
    bench = Bench(analyst)
    bench.attempts._add(FIRST, {"kind": "extractor", "payload": {**PAYLOAD, "code": "x = good"}}, 1)
    await bench.store.save(bench.repair)
    assert await bench.run() is None
    assert not bench.store.saves


@pytest.mark.parametrize(
    ("words", "outcome", "verdicts"),
    [
        (["good"], Outcome.VALIDATED, ["validated"]),
        (["a", "b", "good"], Outcome.VALIDATED, ["failed", "failed", "validated"]),
        (["a", "b", "c", "good"], Outcome.EXHAUSTED, ["failed"] * 3),
        (["evil", "good"], Outcome.TERMINAL, ["failed"]),
        (["lost", "good"], Outcome.TERMINAL, ["error"]),
        ([ProviderError("provider.refused", "no")], Outcome.PROVIDER_FAILED, []),
    ],
)
async def test_repair_ends(analyst: Analyst, words, outcome, verdicts) -> None:
    ended = await Bench(analyst, *words).run()
    assert (ended.outcome, [fix.verdict.value for fix in ended.fixes]) == (outcome, verdicts)
    assert ended.finished_at is not None


async def test_every_fix_follows_the_attempt_before_it(analyst: Analyst) -> None:
    bench = Bench(analyst, "a", "good")
    ended = await bench.run()
    assert bench.attempts.submitted == [fix.attempt_id for fix in ended.fixes]
    assert [bench.attempts.known[i].attempt.attempt_number for i in bench.attempts.submitted] == [2, 3]
    assert "x = a" in bench.provider.asked[1].user


async def test_a_duplicate_is_not_run_counts_and_changes_how_is_asked(analyst: Analyst) -> None:
    bench = Bench(analyst, "a", "a  # the same", "good")
    ended = await bench.run()
    assert [fix.duplicate for fix in ended.fixes] == [False, True, False]
    assert [fix.strategy for fix in ended.fixes] == [Strategy.FIX, Strategy.FIX, Strategy.DIFFERENT]
    assert len(bench.attempts.submitted) == 2


async def test_the_same_failure_for_the_third_time_is_stuck(analyst: Analyst) -> None:
    bench = Bench(analyst, "1", "2", "good")
    ended = await bench.run()
    assert ended.outcome is Outcome.STUCK
    assert [fix.strategy for fix in ended.fixes] == [Strategy.FIX, Strategy.RETHINK]


async def test_an_attempt_under_way_is_cancelled_when_the_time_is_over(analyst: Analyst) -> None:
    bench = Bench(analyst, "a")
    bench.attempts.endless = True
    ended = await bench.run()
    assert ended.outcome is Outcome.TIMEOUT
    assert bench.attempts.cancelled == [ended.fixes[0].attempt_id]


@pytest.mark.parametrize("save", range(6))
async def test_a_repair_goes_on_where_it_stood_when_the_power_went_out(analyst: Analyst, save: int) -> None:
    bench = Bench(analyst, "a", "b", "c", "d", "e")
    bench.store = Store(fails_at=save)
    with pytest.raises(Power):
        await bench.run()
    stood = bench.store.saves[-1] if bench.store.saves else bench.repair
    bench.store = Store()
    ended = await bench.run(stood)
    assert ended.outcome is Outcome.EXHAUSTED
    assert len(ended.fixes) == 3
    assert ended.fixes[: len(tried(stood))] == tuple(
        replace(fix, verdict=e.verdict, cause=e.cause, fingerprint=e.fingerprint)
        for fix, e in zip(tried(stood), ended.fixes, strict=False)
    )
    assert len(set(bench.attempts.submitted)) == 3


async def test_answer_that_is_on_record_is_never_asked_for_again(analyst: Analyst) -> None:
    bench = Bench(analyst, "a", "good")
    bench.store = Store(fails_at=1)  # after the answer is there, before a fix is made of it
    with pytest.raises(Power):
        await bench.run()
    steps, stood = bench.store.steps, bench.store.saves[-1]
    assert (tried(stood), steps[1].reply.code) == ((), "x = a\n")

    bench.store = Store()
    bench.store.steps = steps
    ended = await bench.run(stood)
    assert [fix.text for fix in ended.fixes] == ["x = a\n", "x = good\n"]
    assert len(bench.provider.asked) == 2


async def test_request_holds_the_words_the_findings_and_what_failed_before(analyst: Analyst) -> None:
    bench = Bench(analyst, "a", "good")
    submission = {"kind": "extractor", "payload": PAYLOAD, "intent": "take the quarter apart"}
    bench.attempts._add(FIRST, submission, 1)
    await bench.run()
    first, second = bench.provider.asked
    assert "REQUEST\n" in first.user
    assert "take the quarter apart" in first.user
    assert (first.kind, first.attempt, first.intent) == ("extractor", 1, "take the quarter apart")
    assert first.findings[0]["rule"] == "sandbox.raised"
    assert "DO NOT REPEAT THEM" in second.user
    assert "Answer 1 is the PASSAGE below" in second.user
    assert second.user.count("x = a") == 1


async def test_fix_that_does_not_fit_counts_and_the_next_request_says_why(analyst: Analyst) -> None:
    bench = Bench(analyst, Reply(files={"a.py": "x"}, reason="files"), "good")
    ended = await bench.run()
    assert ended.outcome is Outcome.VALIDATED
    unusable, good = ended.fixes
    assert (unusable.problem is None, unusable.attempt_id, good.problem) == (False, None, None)
    assert "doesn't accept answers in the form files" in bench.provider.asked[1].user


async def test_last_fix_that_does_not_fit_ends_the_repair_with_why(analyst: Analyst) -> None:
    broken = [Reply(files={name: "x"}, reason="files") for name in "abc"]
    ended = await Bench(analyst, *broken).run()
    assert ended.outcome is Outcome.EXHAUSTED
    assert "doesn't accept answers in the form files" in (ended.detail or "")


@pytest.mark.parametrize(
    "defect", [OverflowError("too large"), RecursionError("too deep"), KeyError("choices")]
)
async def test_defect_that_an_answer_brings_out_ends_the_repair_and_is_said(
    analyst: Analyst, defect: Exception
) -> None:
    bench = Bench(analyst, defect)
    await bench.store.save(bench.repair)
    async with bench.chains.running() as chains:
        await chains.recover_unfinished()
        seen = [view.chain async for view in chains.follow("R")]

    assert seen[-1].outcome is Outcome.PROVIDER_FAILED
    assert type(defect).__name__ in (seen[-1].round.detail or "")


async def test_hint_and_webhook_of_what_failed_go_on_with_each_fix(analyst: Analyst) -> None:
    bench = Bench(analyst, "a", "good")
    submission = {"kind": "extractor", "payload": PAYLOAD, "repair": {}, "webhook": "https://ci.example/"}
    bench.attempts._add(FIRST, submission, 1)
    granted = BudgetGrant(uid=0, at=bench.repair.started_at, hint="look at x")
    await bench.run(bench.repair.replace_last_round(replace(bench.repair.round, grant=granted)))
    sent = [bench.attempts.known[attempt_id].submission for attempt_id in bench.attempts.submitted]
    assert [("repair" in one, one["webhook"]) for one in sent] == [(False, "https://ci.example/")] * 2
    assert all("look at x" in request.user for request in bench.provider.asked)
