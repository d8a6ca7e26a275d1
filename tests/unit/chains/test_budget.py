"""The number of fixes per chain of attempts, across its repairs, and who may raise it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from assayd.clock import UlidGenerator
from assayd.errors import RequestError
from assayd.kinds import registry as validators
from assayd.model.attempt import Attempt, State
from assayd.model.policy import ExecutionPolicy
from assayd.model.report import Verdict
from assayd.model.submission import Peer
from assayd_chains.attempts import FinishedSubmission
from assayd_chains.chains import ChainLimits
from assayd_chains.model import (
    Answer,
    Chain,
    Failure,
    Outcome,
    Repair,
    RepairTerms,
    Strategy,
    compute_budget_left,
)
from assayd_chains.prompts import list_earlier_answers
from support.fakes.generation_bench import new_chains

NOW = datetime(2026, 5, 4, tzinfo=UTC)
FIRST, SECOND = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW"


def fix(number: int, attempt_id: str | None = None) -> Answer:
    return Answer(
        number=number,
        strategy=Strategy.FIX,
        asked_at=NOW,
        error=f"failure before {number}",
        digest=str(number),
        reason="r",
        passage="code",
        text=f"answer {number}",
        attempt_id=attempt_id,
    )


def repair(fixes: int, *, granted_by: int | None = None) -> Repair:
    return Repair(
        id=UlidGenerator().new(),
        failure=Failure(attempt_id=FIRST, at=NOW),
        kind="extractor",
        provider="local",
        uid=7,
        max_attempts=3,
        ends_at=NOW + timedelta(minutes=5),
        granted_by=granted_by,
        outcome=Outcome.EXHAUSTED,
        fixes=tuple(fix(number) for number in range(1, fixes + 1)),
    )


@pytest.mark.parametrize(
    ("chain", "left"),
    [
        ([], 3),
        ([repair(1)], 2),
        ([repair(1), repair(2)], 0),
        ([repair(3), repair(3)], 0),
        ([repair(3), repair(0, granted_by=7)], 3),
        ([repair(3), repair(2, granted_by=7), repair(1)], 0),
    ],
)
def test_fixes_of_all_repairs_of_a_chain_count_since_somebody_granted_a_full_budget(
    chain: list[Repair], left: int
) -> None:
    assert compute_budget_left(chain, 3) == left


def test_earlier_answers_come_with_what_was_found_after_them() -> None:
    told = list_earlier_answers([fix(1), fix(2)], "failure now")
    assert [(one.text, one.failure) for one in told] == [
        ("answer 1", "failure before 2"),
        ("answer 2", "failure now"),
    ]
    assert list_earlier_answers([], "failure now") == []


class Attempts:
    """Two attempts, the second of which follows the first."""

    def __init__(self) -> None:
        first = Attempt(
            id=FIRST,
            kind="extractor",
            policy="extractor",
            input_digest="",
            created_at=NOW,
            peer=Peer(uid=7, gid=7, pid=1),
            state=State.FINISHED,
            verdict=Verdict.FAILED,
        )
        self.known = {FIRST: first, SECOND: replace(first, id=SECOND, parent_id=FIRST)}

    async def policy(self, submission: Mapping[str, object], *, peer: Peer) -> ExecutionPolicy:
        return ExecutionPolicy(name="policy")

    async def finished(self, attempt_id: str) -> FinishedSubmission:
        return FinishedSubmission(attempt=self.known[attempt_id], submission={}, report={})


class Store:
    """Stores repairs in memory."""

    def __init__(self, *repairs: Repair) -> None:
        self.repairs = list(repairs)

    async def repairs_of(self, attempt_id: str) -> list[Repair]:
        return [one for one in self.repairs if one.attempt_id == attempt_id]

    async def save(self, saved: Chain) -> None:
        self.repairs += saved.repairs


class Daemon:
    """Records repairs without performing them."""

    def __init__(
        self, *earlier: Repair, providers: tuple[str, ...] = ("rules", "local"), most: int = 3
    ) -> None:
        self.attempts, self.store = Attempts(), Store(*earlier)
        self.chains = new_chains(
            attempts=self.attempts,
            store=self.store,
            fitter=None,
            kinds={"extractor": validators.find_validator("extractor")},
            providers=dict.fromkeys(providers),
            limits=ChainLimits(max_attempts=most),
        )
        self.chains._start_chain = lambda _: None  # type: ignore[method-assign]

    async def start(self, attempt_id: str = SECOND, **request: object) -> Repair:
        wanted = RepairTerms(**request, uid=7)  # type: ignore[arg-type]
        return await self.chains.repair(self.attempts.known[attempt_id], wanted)


async def test_second_request_gets_what_the_first_has_left() -> None:
    assert (await Daemon(repair(1)).start()).max_attempts == 2


async def test_chain_that_has_used_its_fixes_is_refused_with_the_ways_on() -> None:
    with pytest.raises(RequestError, match="--fresh") as refused:
        await Daemon(repair(3)).start()
    assert refused.value.code == "repair.budget_spent"


@pytest.mark.parametrize("request_of", [{"hint": "Q is a quarter"}, {"fresh": True}])
async def test_person_grants_a_full_budget_which_is_recorded(request_of: dict[str, object]) -> None:
    granted = await Daemon(repair(3)).start(**request_of)
    assert (granted.max_attempts, granted.granted_by) == (3, 7)


async def test_only_a_fresh_start_goes_back_to_the_first_submission() -> None:
    daemon = Daemon(repair(3))
    assert (await daemon.start(hint="h")).attempt_id == SECOND
    assert (await Daemon(repair(3)).start(fresh=True)).attempt_id == FIRST


async def test_hint_goes_to_the_one_provider_that_reads_it() -> None:
    assert (await Daemon().start(hint="h")).provider == "local"


@pytest.mark.parametrize(
    ("providers", "named", "remedy"),
    [
        (("rules",), None, "repair.providers"),
        (("rules", "a", "b"), None, "a, b"),
        (("rules", "local"), "rules", "local"),
    ],
)
async def test_hint_that_nobody_would_read_is_refused(
    providers: tuple[str, ...], named: str | None, remedy: str
) -> None:
    with pytest.raises(RequestError, match=remedy) as refused:
        await Daemon(providers=providers).start(hint="h", provider=named)
    assert refused.value.code == "repair.hint_unread"


async def test_request_without_a_number_gets_that_of_the_settings() -> None:
    daemon = Daemon(most=5)
    assert (await daemon.start(FIRST)).max_attempts == 5
    assert (await Daemon(most=5).start(FIRST, max_attempts=1)).max_attempts == 1
