"""Repairs that submissions ask for: checked, recorded once, begun once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from assayd.errors import RequestError
from assayd.ids import SystemClock, Ulids
from assayd.kinds import registry
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt
from assayd.model.repair import Repair
from assayd.model.submission import Peer, RepairWish
from assayd.repairs.loop import RepairDependencies
from assayd.repairs.repairs import DaemonRepairs, RepairLimits
from assayd.repairs.requests import RecordedRequests

WISH = RepairWish(provider="rules", max_attempts=2)
ATTEMPT = Attempt(
    id="A",
    kind="extractor",
    policy="extractor",
    input_digest="",
    created_at=datetime(2026, 5, 4, tzinfo=UTC),
    peer=Peer(uid=7, gid=0, pid=0),
)


class Store:
    """Repairs in memory."""

    def __init__(self) -> None:
        self.saved: list[Repair] = []

    async def save(self, repair: Repair) -> None:
        self.saved.append(repair)

    async def of_attempt(self, attempt_id: str) -> list[Repair]:
        return [repair for repair in self.saved if repair.attempt_id == attempt_id]

    async def unfinished(self) -> list[Repair]:
        return self.saved


class Unending:
    """Attempts that are never finished."""

    def __init__(self) -> None:
        self.followed: list[str] = []

    async def finished(self, attempt_id: str) -> None:
        self.followed.append(attempt_id)
        await asyncio.Event().wait()


@pytest.fixture
def requests() -> RecordedRequests:
    return RecordedRequests(
        store=Store(),
        providers=frozenset({"rules", "mine"}),
        clock=SystemClock(),
        ids=Ulids(),
    )


def test_unknown_provider_is_refused(requests: RecordedRequests) -> None:
    with pytest.raises(RequestError) as refused:
        requests.check(RepairWish(provider="theirs", max_attempts=1))
    assert refused.value.code == "repair.provider_unknown"


@pytest.mark.parametrize("provider", ["rules", "mine"])
async def test_request_is_recorded_once_however_often_it_is_made(
    requests: RecordedRequests, provider: str
) -> None:
    wish = RepairWish(provider=provider, max_attempts=2)
    requests.check(wish)

    await requests.record(ATTEMPT, wish)
    await requests.record(ATTEMPT, wish)

    repair = requests.recorded.get_nowait()
    assert (repair.provider, repair.uid, repair.max_attempts) == (provider, 7, 2)
    assert requests.store.saved == [repair]
    assert requests.recorded.empty()


async def test_repair_that_is_requested_while_others_are_recovered_begins_once(
    requests: RecordedRequests,
) -> None:
    attempts = Unending()
    deps = RepairDependencies(
        attempts=attempts,
        repairs=requests.store,
        analyst=None,
        kinds=registry.all_validators(),
        providers={},
        clock=requests.clock,
        ids=requests.ids,
    )
    async with DaemonRepairs(deps, requests, RepairLimits(), Metrics()).running() as repairs:
        await requests.record(ATTEMPT, WISH)
        await repairs.recover()
        while not requests.recorded.empty() or not attempts.followed:
            await asyncio.sleep(0)
        assert attempts.followed == ["A"]
