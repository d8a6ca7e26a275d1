"""Claims of nodes on a PostgreSQL server: a node that holds runs without verdicts loses them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from sqlalchemy import text

from assayd.documents import LARGE_DOCUMENT_BYTES
from assayd.errors import RequestError
from assayd.model.report import Verdict
from assayd_cluster.documents import MAX_CAPACITY, NodeHeartbeat, RunLost
from assayd_cluster.gateway.runs import MAX_RETURNS, RunHeldElsewhere
from assayd_cluster.nodes import DatabaseNodes
from assayd_cluster.settings import ClusterSettings
from support.cluster.gateways import OneGateway, one_gateway, silence
from support.stores.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres


@pytest.fixture
async def gateway(tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[OneGateway]:
    with postgres.database() as url:
        async with one_gateway(tmp_path, url) as found:
            yield found


async def test_node_that_holds_an_attempt_for_too_long_has_lost_it(gateway: OneGateway) -> None:
    await gateway.beat("hangs")
    await gateway.beat("works")
    attempt = await gateway.submit()
    message = await gateway.messages.next()
    await gateway.claim("hangs", message)
    await gateway.beat("hangs", runs=[attempt.id])
    with pytest.raises(RunHeldElsewhere):
        await gateway.claim("works", message)
    late = text("UPDATE runs SET leased_at = leased_at - 60000000, expires_at = leased_at + 1")
    await gateway.access.write(lambda connection: connection.execute(late).close())
    claimed = await gateway.claim("works", message)
    assert claimed.run == 2
    assert await gateway.bring("works", attempt.id, claimed)


@pytest.mark.parametrize("bytes_of_code", [10, LARGE_DOCUMENT_BYTES])
async def test_node_gets_no_parent_that_its_daemon_would_look_up(
    gateway: OneGateway, bytes_of_code: int
) -> None:
    await gateway.beat("works")
    parent = await gateway.submit()
    await gateway.finish_all("works", 1)
    code = f"#{'x' * bytes_of_code}\n"
    child = await gateway.submit(code, parent_id=parent.id)
    claimed = await gateway.claim("works", await gateway.messages.next())
    said = json.loads(claimed.document)
    assert (said.get("parent_id"), said["payload"]["code"]) == (None, code)
    assert await gateway.bring("works", child.id, claimed)
    found = await gateway.jobs.get(child.id)
    assert found is not None
    assert (found.parent_id, found.attempt_number) == (parent.id, 2)


async def test_node_gets_no_more_than_it_has_room_for(gateway: OneGateway) -> None:
    await gateway.beat("greedy", capacity=1)
    await gateway.beat("other", capacity=4)
    attempts = [await gateway.submit(f"# {number}\n") for number in range(3)]
    messages = [await gateway.messages.next() for _ in attempts]
    claimed = await gateway.claim("greedy", messages[0])
    await gateway.claim("greedy", messages[1])
    with pytest.raises(RequestError) as refused:
        await gateway.claim("greedy", messages[2])
    assert refused.value.code == "node.idle"
    again = await gateway.messages.next()  # another node may have it at once
    await gateway.claim("greedy", messages[1])  # what it has, it may ask for again
    await gateway.bring("greedy", messages[0].attempt, claimed)
    assert (await gateway.claim("greedy", again)).run == 1


async def test_drained_node_gets_no_new_run_and_keeps_those_that_it_has(gateway: OneGateway) -> None:
    await gateway.beat("stolen")
    await gateway.beat("works")
    held, wanted = [await gateway.submit(f"# {number}\n") for number in range(2)]
    first, second = [await gateway.messages.next() for _ in range(2)]
    claimed = await gateway.claim("stolen", first)
    await drain(gateway, "stolen")
    with pytest.raises(RequestError) as refused:
        await gateway.claim("stolen", second)
    assert refused.value.code == "node.idle"
    again = await gateway.messages.next()  # the old ticket is worthless, the attempt waits for nobody
    with pytest.raises(RequestError, match="ticket"):
        await gateway.claim("works", second)
    assert await gateway.bring("works", wanted.id, await gateway.claim("works", again))
    assert (await gateway.claim("stolen", first)).run == claimed.run
    assert await gateway.bring("stolen", held.id, claimed)


@pytest.mark.parametrize("changes", [{"profiles": {}}, {"ready": False}, {"version": "9.0.0"}])
async def test_node_that_was_told_to_take_no_work_gets_none(
    gateway: OneGateway, changes: dict[str, object]
) -> None:
    await gateway.beat("stolen")  # a gateway without any node that takes attempts would refuse the submission
    attempt = await gateway.submit()
    await gateway.beat("stolen", **changes)
    with pytest.raises(RequestError) as refused:
        await gateway.claim("stolen", await gateway.messages.next())
    assert refused.value.code == "node.idle"
    await gateway.beat("works")
    claimed = await gateway.claim("works", await gateway.messages.next())
    assert await gateway.bring("works", attempt.id, claimed)


async def test_silent_node_gets_a_run_after_its_next_beat(gateway: OneGateway) -> None:
    await gateway.beat("away")
    await gateway.submit()
    message = await gateway.messages.next()
    await silence(gateway, "nodes", "name", "away")
    for node in ("away", "never-seen"):
        with pytest.raises(RunHeldElsewhere, match="beat"):
            await gateway.claim(node, message)
    await gateway.beat("away")
    assert (await gateway.claim("away", message)).run == 1


async def test_node_counts_with_no_more_capacity_than_the_operator_allows(gateway: OneGateway) -> None:
    await gateway.beat("greedy", capacity=MAX_CAPACITY)
    nodes = {node.name: node.capacity for node in gateway.cluster.readiness.census.nodes}
    assert nodes["greedy"] == ClusterSettings().node_capacity == 64


async def drain(gateway: OneGateway, node: str) -> None:
    found = await DatabaseNodes(gateway.access).set_drained(node, drained=True)
    assert found is not None


async def test_attempt_that_is_given_back_without_end_ends(gateway: OneGateway) -> None:
    await gateway.beat("a", capacity=4)
    attempt = await gateway.submit()
    for _ in range(MAX_RETURNS + 2):
        claimed = await gateway.claim("a", await gateway.messages.next())
        lost = RunLost(lost=True, reason="the node is draining", started=False)
        await gateway.runs.record_lost_run("a", attempt.id, claimed.run, lost)
    ended = await gateway.service.wait(attempt.id, 30)
    assert (ended.verdict, ended.error and ended.error.code) == (Verdict.ERROR, "run.lost")


async def test_run_that_was_given_back_is_not_its_nodes_any_more(gateway: OneGateway) -> None:
    await gateway.beat("a", capacity=4)
    attempt = await gateway.submit()
    claimed = await gateway.claim("a", await gateway.messages.next())
    lost = RunLost(lost=True, reason="the node is draining", started=False)
    await gateway.runs.record_lost_run("a", attempt.id, claimed.run, lost)
    with pytest.raises(RequestError, match=r"(does not|no longer) holds? run 1"):
        await gateway.bring("a", attempt.id, claimed)
    again = await gateway.claim("a", await gateway.messages.next())
    assert await gateway.bring("a", attempt.id, again)


async def test_run_given_back_at_one_gateway_is_given_back_at_all(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    with postgres.database() as url:
        async with one_gateway(tmp_path, url, "a") as one, one_gateway(tmp_path, url, "b") as other:
            await one.beat("n")
            await other.beat("n")
            attempt = await one.submit()
            claimed = await one.claim("n", await one.messages.next())
            lost = RunLost(lost=True, reason="the node is draining", started=False)
            await other.runs.record_lost_run("n", attempt.id, claimed.run, lost)
            message = await one.messages.next()
            with pytest.raises(RequestError, match=r"(does not|no longer) holds? run 1"):
                await one.bring("n", attempt.id, claimed)
            again = await other.claim("n", message)
            assert await one.bring("n", attempt.id, again)  # read from the record: it was claimed elsewhere


async def test_run_given_back_where_the_notice_was_missed_counts_for_nothing(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    lost = RunLost(lost=True, reason="the node is draining", started=False)
    with postgres.database() as url:
        async with one_gateway(tmp_path, url, "a") as one, one_gateway(tmp_path, url, "b") as other:
            for gateway in (one, other):
                await gateway.beat("n")
                await gateway.beat("m")
            attempt = await other.submit()
            old = await one.claim("n", await other.messages.next())
            one.deaf()
            await other.runs.record_lost_run("n", attempt.id, old.run, lost)
            claimed = await other.claim("m", await other.messages.next())
            with pytest.raises(RequestError, match=r"(does not|no longer) holds? run 1"):
                await one.bring("n", attempt.id, old)
            assert not list((tmp_path / "bundles").glob("*/*/*.tar"))
            assert await other.bring("m", attempt.id, claimed)


async def test_old_claim_is_none_on_another_attempt_of_the_same_id(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    with postgres.database() as url:
        async with one_gateway(tmp_path, url, "a") as one, one_gateway(tmp_path, url, "b") as other:
            for gateway in (one, other):
                await gateway.beat("n")
            attempt = await other.submit()
            old = await one.claim("n", await other.messages.next())
            one.deaf()
            await other.bring("n", attempt.id, old)
            await other.service.wait(attempt.id, 30)
            await other.jobs.remove([attempt.id])
            again = await other.submit("# another\n", attempt_id=attempt.id)
            claimed = await other.claim("n", await other.messages.next())
            with pytest.raises(RequestError, match=r"(does not|no longer) holds? run 1"):
                await one.bring("n", attempt.id, old)
            assert await other.bring("n", again.id, claimed)


def test_capacity_that_no_node_has_is_refused() -> None:
    beat = {"capacity": MAX_CAPACITY, "ready": True, "version": "1"}
    assert NodeHeartbeat.model_validate(beat).capacity == MAX_CAPACITY
    with pytest.raises(ValidationError, match="capacity"):
        NodeHeartbeat.model_validate({**beat, "capacity": MAX_CAPACITY + 1})
