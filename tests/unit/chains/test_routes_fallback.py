from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from assayd.documents.chains import RepairDocument
from assayd.model.prompting import ExtractedField, ExtractedFields
from assayd.ports.service import NullChains
from assayd_chains.fallback import OfferTrigger, build_fallback_offer
from assayd_chains.model import Failure, Outcome, Repair
from support.fakes.generation_bench import new_chains

ID = "01ARZ3NDEKTSV4RRFFQ69G5FB0"
TAKEN = ExtractedFields(
    texts=("/CLIENT-A/2024/x.csv",),
    fields=(ExtractedField(name="client", computed=False), ExtractedField(name="age", computed=True)),
)
BEGAN = datetime(2026, 5, 4, 10, 20, 30, tzinfo=UTC)
REPAIR = Repair(
    id=ID,
    failure=Failure(attempt_id="01ARZ3NDEKTSV4RRFFQ69G5FAV", at=BEGAN),
    kind="extractor",
    provider="rules",
    uid=1000,
    max_attempts=3,
    ends_at=BEGAN + timedelta(minutes=5),
    outcome=Outcome.EXHAUSTED,
    finished_at=BEGAN,
    fallback=build_fallback_offer(OfferTrigger.COMPUTED_FIELDS, [], TAKEN),
)


class Forgotten:
    """The needed part of `attempts.Attempts`, without any stored submission."""

    async def submission(self, attempt_id: str) -> None:
        return None


class Store:
    """The needed part of `DatabaseChainStore`."""

    def __init__(self, repair: Repair) -> None:
        self.held = repair
        self.saves = 0

    async def get_repair(self, repair_id: str) -> Repair | None:
        return self.held if repair_id == self.held.id else None

    async def save_repair(self, repair: Repair) -> None:
        self.held, self.saves = repair, self.saves + 1


@pytest.fixture
async def store(app) -> AsyncIterator[Store]:
    store = Store(REPAIR)
    app.state.chains = new_chains(attempts=Forgotten(), store=store, fitter=None, kinds={}, providers={})
    yield store
    app.state.chains = NullChains()


async def test_offer_is_part_of_the_repair_in_the_form_that_the_reference_describes(connect, store) -> None:
    document = (await connect(1000).get(f"/v1/repairs/{ID}")).json()
    assert RepairDocument.model_validate(document).model_dump(mode="json") == document
    assert document["fallback"]["notes"].keys() == {"age"}


async def test_rules_are_given_once_they_are_accepted(connect, store) -> None:
    client = connect(1000)
    assert (await client.get(f"/v1/repairs/{ID}/rules")).status_code == 404
    accepted = await client.post(f"/v1/repairs/{ID}/accept-fallback")
    assert accepted.status_code == 200
    assert accepted.json()["fallback"]["accepted_at"].endswith("Z")
    rules = await client.get(f"/v1/repairs/{ID}/rules")
    assert rules.headers["content-type"].startswith("application/yaml")
    assert rules.text == REPAIR.fallback["rules"]


async def test_accepting_again_changes_nothing(connect, store) -> None:
    client = connect(1000)
    first = await client.post(f"/v1/repairs/{ID}/accept-fallback")
    assert (await client.post(f"/v1/repairs/{ID}/accept-fallback")).json() == first.json()
    assert store.saves == 1


async def test_repair_that_offers_nothing_says_so(connect, store) -> None:
    store.held = replace(REPAIR, fallback=None)
    refused = await connect(1000).post(f"/v1/repairs/{ID}/accept-fallback")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "repair.no_fallback")


async def test_repairs_of_others_are_not_there(connect, store) -> None:
    assert (await connect(1001).post(f"/v1/repairs/{ID}/accept-fallback")).status_code == 404
    assert (await connect(1001).get(f"/v1/repairs/{ID}/rules")).status_code == 404
    assert store.saves == 0
