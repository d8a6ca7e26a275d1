"""Repairs that submissions ask for: checked, recorded once, started once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from assayd.clock import SystemClock, UlidGenerator
from assayd.errors import RequestError
from assayd.kinds import registry
from assayd.model.attempt import Attempt
from assayd.model.submission import Peer, RepairOptions
from assayd_chains.chains import ChainLimits, RepairRequests
from assayd_chains.model import Chain, Repair
from support.fakes.generation_bench import new_chains

WISH = RepairOptions(provider="rules", max_attempts=2)
ATTEMPT = Attempt(
    id="A",
    kind="extractor",
    policy="extractor",
    input_digest="",
    created_at=datetime(2026, 5, 4, tzinfo=UTC),
    peer=Peer(uid=7, gid=0, pid=0),
)


class Store:
    """In-memory repairs."""

    def __init__(self) -> None:
        self.saved: list[Chain] = []

    async def save(self, chain: Chain) -> None:
        self.saved.append(chain)

    async def repairs_of(self, attempt_id: str) -> list[Repair]:
        found = [repair for chain in self.saved for repair in chain.repairs]
        return [repair for repair in found if repair.attempt_id == attempt_id]

    async def list_unfinished(self) -> list[Chain]:
        return self.saved


class Unending:
    """Attempts that never finish."""

    def __init__(self) -> None:
        self.followed: list[str] = []

    async def finished(self, attempt_id: str) -> None:
        self.followed.append(attempt_id)
        await asyncio.Event().wait()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def requests(store: Store) -> RepairRequests:
    return RepairRequests(
        store=store,
        providers=frozenset({"rules", "mine"}),
        clock=SystemClock(),
        ids=UlidGenerator(),
        limits=ChainLimits(),
    )


def test_unknown_provider_is_refused(requests: RepairRequests) -> None:
    with pytest.raises(RequestError) as refused:
        requests.check(RepairOptions(provider="theirs", max_attempts=1))
    assert refused.value.code == "repair.provider_unknown"


@pytest.mark.parametrize("provider", ["rules", "mine"])
async def test_request_is_recorded_once_however_often_it_is_made(
    store: Store, requests: RepairRequests, provider: str
) -> None:
    wish = RepairOptions(provider=provider, max_attempts=2)
    requests.check(wish)

    await requests.record(ATTEMPT, wish)
    await requests.record(ATTEMPT, wish)

    repair = requests.recorded.get_nowait()
    assert (repair.provider, repair.uid, repair.max_attempts) == (provider, 7, 2)
    assert store.saved == [repair]
    assert requests.recorded.empty()


async def test_repair_that_is_requested_while_others_are_recovered_begins_once(store: Store) -> None:
    attempts = Unending()
    chains = new_chains(
        attempts=attempts,
        store=store,
        fitter=None,
        kinds=registry.load_own_validators(),
        providers=dict.fromkeys(("rules", "mine")),
    )
    requests = chains._requests
    async with chains.running():
        await requests.record(ATTEMPT, WISH)
        await chains.recover_unfinished()
        while not requests.recorded.empty() or not attempts.followed:
            await asyncio.sleep(0)
        assert attempts.followed == ["A"]
