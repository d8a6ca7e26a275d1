"""Gateways on a PostgreSQL server: attempts survive every crash."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import select

from assayd.documents.reports import CaseDocument
from assayd.errors import RequestError, StoreError
from assayd.model.attempt import Attempt
from assayd.model.batch import BatchRequest
from assayd.model.report import Case, CaseStatus, Verdict
from assayd.ports.driving import WorkKind
from assayd.store import tables as daemon_tables
from assayd_attestation import signatures
from assayd_cluster import tables
from assayd_cluster.documents import RunLost
from assayd_cluster.gateway.outbox import BrokerMessage
from assayd_cluster.gateway.runs import RunHeldElsewhere
from support.cluster.gateways import PEER, one_gateway, silence, two_gateways
from support.stores.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres

_OUTBOX = select(tables.dispatches)


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[str]:
    with postgres.empty_database() as found:
        yield found


@pytest.fixture
def url(database: str) -> Iterator[str]:
    yield database
    with psycopg.connect(database.replace("+psycopg", "")) as connection:
        connection.execute("TRUNCATE attempts, submissions, gateways, drivers, nodes CASCADE")


async def test_gateway_without_a_node_takes_nothing_and_says_why(tmp_path: Path, url: str) -> None:
    async with one_gateway(tmp_path, url) as gateway:
        await gateway.cluster.readiness.prepare()
        with pytest.raises(RequestError, match="no node has sent a heartbeat") as caught:
            await gateway.submit()
        await gateway.beat("a", ready=False, reason="isolation check failed")
        with pytest.raises(RequestError, match="none of 1 nodes takes attempts"):
            await gateway.submit()
    assert caught.value.code == "not_ready"


async def test_verdict_of_a_node_is_the_attempts(tmp_path: Path, url: str) -> None:
    async with one_gateway(tmp_path, url) as gateway:
        await gateway.beat("a")
        attempt = await gateway.submit()
        await gateway.finish_all("a", 1)
        ended = await gateway.service.wait(attempt.id, 30)
        events = [event async for event in gateway.service.events(attempt.id)]
        report, execution = await gateway.service.documents(ended)
        left = await gateway.access.read(lambda connection: connection.execute(_OUTBOX).all())
    assert (ended.verdict, ended.run_number, ended.peer) == (Verdict.VALIDATED, 1, PEER)
    assert attempt.id.encode() in report
    assert execution == b"null"
    assert [event.kind for event in events] == ["state"] * 6 + ["finished"]
    assert [(event.run_number, event.seq) for event in events] == [
        *((0, seq) for seq in (1, 2, 3)),
        *((1, seq) for seq in (4, 5, 6, 7)),
    ]
    assert left == []


async def test_output_that_comes_with_the_verdict_alone_is_seen_by_those_who_follow(
    tmp_path: Path, url: str
) -> None:
    async with one_gateway(tmp_path, url) as gateway:
        await gateway.beat("a")
        attempt = await gateway.submit()
        message = await gateway.messages.next()
        claimed = await gateway.claim("a", message)
        await gateway.bring("a", attempt.id, claimed, output={"unit": "a", "text": "hello"})
        events = [event async for event in gateway.service.events(attempt.id)]
        stored = await gateway.gateway.parts.basics.jobs.events(attempt.id)
    kinds = ["state"] * 4 + ["stdout"] + ["state"] * 2 + ["finished"]
    assert [(event.seq, event.kind) for event in events] == list(enumerate(kinds, 1))
    assert "stdout" not in {event.kind for event in stored}


async def test_cases_of_the_report_are_those_that_kinds_keep_records_of(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Case] = []

    async def finish(
        jobs: Any, attempt: Attempt, events: Any, cases: Sequence[Case], *_: Any, **more: Any
    ) -> bool:
        kept.extend(cases)
        return bool(await recorded(jobs, attempt, events, cases))

    case = Case(name="/data/a.csv", status=CaseStatus.PASSED, exit_code=0, duration_s=0.5)
    async with one_gateway(tmp_path, url) as gateway:
        recorded = type(gateway.jobs).finish
        monkeypatch.setattr(type(gateway.jobs), "finish", finish)
        await gateway.beat("a")
        attempt = await gateway.submit()
        claimed = await gateway.claim("a", await gateway.messages.next())
        document = CaseDocument.from_value(case, duration_ms=500.0, result_text=None, preview=None)
        await gateway.bring("a", attempt.id, claimed, cases=[document.model_dump(mode="json")])
        ended = await gateway.service.wait(attempt.id, 30)
    assert kept == [case]
    assert (type(ended.cause), ended.cause) == (str, "completed")


async def test_verdict_that_cannot_be_signed_becomes_an_error(tmp_path: Path, url: str) -> None:
    signatures.create_key_pair(tmp_path / "key")
    settings = {"command": ["/bin/false"], "command_key": tmp_path / "key.pub"}
    async with one_gateway(tmp_path, url, attestation=settings) as gateway:
        await gateway.beat("a")
        attempt = await gateway.submit()
        await gateway.finish_all("a", 1)
        ended = await gateway.service.wait(attempt.id, 30)
    assert ended.verdict is Verdict.ERROR
    assert ended.error is not None
    assert ended.error.code == "attestation.failed"
    assert ended.bundle is None


async def test_claim_needs_the_ticket_and_is_one_nodes_at_a_time(tmp_path: Path, url: str) -> None:
    async with one_gateway(tmp_path, url) as gateway:
        await gateway.beat("a")
        await gateway.beat("b")
        await gateway.submit()
        message = await gateway.messages.next()
        forged = BrokerMessage(attempt=message.attempt, submission="", ticket="A" * 43 + "=")
        with pytest.raises(RequestError) as wrong:
            await gateway.claim("a", forged)
        first = await gateway.claim("a", message)
        with pytest.raises(RunHeldElsewhere) as held:
            await gateway.claim("b", message)
        again = await gateway.claim("a", message)
        with pytest.raises(RequestError) as foreign:
            await gateway.bring("b", message.attempt, first)
        assert await gateway.bring("a", message.attempt, first)
        assert not await gateway.bring("a", message.attempt, first)
        with pytest.raises(RequestError) as over:
            await gateway.claim("a", message)
    assert (wrong.value.code, foreign.value.code) == ("ticket.wrong", "run.foreign")
    assert not held.value.elsewhere
    assert (first.run, again.run, over.value.code) == (1, 1, "run.over")


async def test_run_of_a_dead_node_is_run_once_more_and_its_late_verdict_does_not_count(
    tmp_path: Path, url: str
) -> None:
    async with one_gateway(tmp_path, url) as gateway:
        await gateway.beat("a")
        await gateway.beat("b")
        attempt = await gateway.submit()
        message = await gateway.messages.next()
        late = await gateway.claim("a", message)
        await silence(gateway, "nodes", "name", "a")
        second = await gateway.claim("b", message)
        assert await gateway.bring("b", attempt.id, second)
        assert not await gateway.bring("a", attempt.id, late, verdict="validated")
        ended = await gateway.service.wait(attempt.id, 30)
        bundles = [path for path in (tmp_path / "bundles").glob("*/*/*") if attempt.id in path.name]
    assert (second.run, ended.run_number, len(bundles)) == (2, 2, 1)


async def test_attempt_whose_runs_are_both_lost_ends_as_error(tmp_path: Path, url: str) -> None:
    lost = RunLost(lost=True, reason="the daemon was killed")
    async with one_gateway(tmp_path, url) as gateway:
        await gateway.beat("a")
        await gateway.beat("b")
        attempt = await gateway.submit()
        message = await gateway.messages.next()
        await gateway.claim("a", message)
        await gateway.runs.record_lost_run("a", attempt.id, 1, lost)
        fresh = await gateway.messages.next()
        with pytest.raises(RequestError, match="ticket"):
            await gateway.claim("b", message)
        with pytest.raises(RequestError, match="another node runs it"):  # its daemon would answer the same
            await gateway.claim("a", fresh)
        assert (await gateway.claim("b", await gateway.messages.next())).run == 2
        await gateway.runs.record_lost_run("b", attempt.id, 2, lost)
        ended = await gateway.service.wait(attempt.id, 30)
    assert (ended.verdict, ended.error.code if ended.error else None) == (Verdict.ERROR, "run.lost")


async def test_run_that_never_started_counts_for_nothing(tmp_path: Path, url: str) -> None:
    async with one_gateway(tmp_path, url) as gateway:
        await gateway.beat("a")
        attempt = await gateway.submit()
        for _ in range(3):
            message = await gateway.messages.next()
            assert (await gateway.claim("a", message)).run == 1
            await gateway.runs.record_lost_run(
                "a", attempt.id, 1, RunLost(lost=True, reason="the node is draining", started=False)
            )
        await gateway.finish_all("a", 1)
        assert (await gateway.service.wait(attempt.id, 30)).verdict is Verdict.VALIDATED


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"id": "01" + "0" * 24}, "id, kind, policy or input_digest"),
        ({"input_digest": "0" * 64}, "id, kind, policy or input_digest"),
        ({"verdict": "failed"}, "report: status"),
        ({"state": "running"}, "verdict missing"),
        ({"error": {"code": "x", "message": "y"}}, "must have an error"),
    ],
)
async def test_verdict_that_is_not_the_attempts_is_refused(
    tmp_path: Path, url: str, changes: dict[str, object], what: str
) -> None:
    async with one_gateway(tmp_path, url) as gateway:
        await gateway.beat("a")
        await gateway.submit()
        message = await gateway.messages.next()
        claimed = await gateway.claim("a", message)
        with pytest.raises(RequestError, match=what):
            await gateway.bring("a", message.attempt, claimed, **changes)
        assert await gateway.bring("a", message.attempt, claimed)


async def test_attempt_is_cancelled_before_and_while_a_node_has_it(tmp_path: Path, url: str) -> None:
    async with one_gateway(tmp_path, url) as gateway:
        await gateway.beat("a")
        waiting = await gateway.submit()
        message = await gateway.messages.next()
        await gateway.service.cancel(waiting.id)
        assert (await gateway.service.wait(waiting.id, 30)).verdict is Verdict.CANCELLED
        with pytest.raises(RequestError, match="no longer needs a run"):
            await gateway.claim("a", message)
        running = await gateway.submit()
        message = await gateway.messages.next()
        claimed = await gateway.claim("a", message)
        telling = asyncio.create_task(gateway.runs.wait_for_cancelled("a", 30))
        await gateway.service.cancel(running.id)
        assert await telling == [running.id]
        await gateway.bring("a", running.id, claimed)
        assert (await gateway.service.wait(running.id, 30)).verdict is Verdict.VALIDATED  # it was first


async def test_attempt_is_waited_for_followed_and_cancelled_at_any_gateway(tmp_path: Path, url: str) -> None:
    async with two_gateways(tmp_path, url) as (first, second):
        attempt = await first.submit()
        message = await first.messages.next()
        claimed = await second.claim("a", message)
        waiting = asyncio.create_task(second.service.wait(attempt.id, 30))

        async def follow() -> list[str]:
            return [event.kind async for event in second.service.events(attempt.id)]

        following = asyncio.create_task(follow())
        await second.bring("a", attempt.id, claimed)
        assert (await waiting).verdict is Verdict.VALIDATED
        assert (await first.service.wait(attempt.id, 30)).verdict is Verdict.VALIDATED
        assert (await asyncio.wait_for(following, 30))[-1] == "finished"
        other = await first.submit()
        await first.messages.next()
        await second.service.cancel(other.id)
        assert (await second.service.wait(other.id, 30)).verdict is Verdict.CANCELLED


async def test_attempts_of_a_dead_gateway_are_taken_over_and_those_of_a_live_one_are_not(
    tmp_path: Path, url: str
) -> None:
    async with two_gateways(tmp_path, url) as (first, second):
        attempt = await first.submit()
        message = await first.messages.next()
        assert await second.inherit() == 0
        await silence(first, "gateways", "id", first.cluster.gateway_id)
        assert await second.inherit() == 1
        fresh = await second.messages.next()
        with pytest.raises(RequestError, match="ticket"):
            await second.claim("a", message)
        await second.bring("a", attempt.id, await second.claim("a", fresh))
        assert (await second.service.wait(attempt.id, 30)).verdict is Verdict.VALIDATED
        assert not await first.cluster.membership.beat()
        with pytest.raises(StoreError, match="declared dead"):
            await first.submit()


async def test_run_that_goes_on_is_waited_for_by_who_takes_over(tmp_path: Path, url: str) -> None:
    async with one_gateway(tmp_path, url, "second") as second:
        async with one_gateway(tmp_path, url, "first") as first:
            await first.beat("a")
            await second.cluster.readiness.check_nodes()
            attempt = await first.submit()
            claimed = await first.claim("a", await first.messages.next())
        assert await second.inherit() == 1  # it has left in order: at once
        await second.bring("a", attempt.id, claimed)
        assert (await second.service.wait(attempt.id, 30)).verdict is Verdict.VALIDATED
        assert second.messages.none()


async def test_attempts_under_way_are_bounded_by_what_nodes_take(tmp_path: Path, url: str) -> None:
    async with one_gateway(tmp_path, url) as gateway:
        await gateway.beat("a", capacity=4)
        attempts = [await gateway.submit(f"# {number}\n") for number in range(8)]
        assert gateway.gateway.parts.scheduler.active == 3  # the fourth place is for other tenants
        await gateway.beat("a", capacity=8)
        async with asyncio.timeout(30):
            while gateway.gateway.parts.scheduler.active < 7:
                await asyncio.sleep(0)
        assert gateway.gateway.parts.scheduler.active == 7
        await gateway.finish_all("a", 8)
        ended = [await gateway.service.wait(attempt.id, 30) for attempt in attempts]
    assert {attempt.verdict for attempt in ended} == {Verdict.VALIDATED}


async def test_runs_say_which_node_had_them(tmp_path: Path, url: str) -> None:
    async with one_gateway(tmp_path, url) as gateway:
        await gateway.beat("a")
        await gateway.submit()
        await gateway.finish_all("a", 1)
        rows = await gateway.access.read(
            lambda connection: connection.execute(select(daemon_tables.runs.c.daemon_id)).scalars().all()
        )
    assert rows == ["a"]


async def test_one_gateway_of_several_sends_to_webhooks(tmp_path: Path, url: str) -> None:
    async with two_gateways(tmp_path, url) as (first, second):
        await first.cluster.readiness.check_nodes()
        assert [each.cluster.basics.sender.leads() for each in (first, second)] == [True, False]
        await silence(first, "gateways", "id", first.cluster.gateway_id)
        await second.cluster.readiness.check_nodes()
        assert second.cluster.basics.sender.leads()


async def test_one_gateway_of_several_removes_what_is_old(tmp_path: Path, url: str) -> None:
    async with two_gateways(tmp_path, url) as (first, second):
        await first.cluster.readiness.check_nodes()
        parts = [each.gateway.parts for each in (first, second)]
        assert [each.retention.leads() for each in parts] == [True, False]
        assert [each.batches.leads() for each in parts] == [True, False]


async def test_batch_of_a_dead_gateway_goes_on_at_another(tmp_path: Path, url: str) -> None:
    async with two_gateways(tmp_path, url) as (first, second):
        batch = await first.gateway.parts.batches.open(BatchRequest(name="b"), peer=PEER)
        assert not await second.cluster.driving.claim(WorkKind.BATCH, batch.id)
        await silence(first, "gateways", "id", first.cluster.gateway_id)
        estate = await second.cluster.membership.adopt_orphaned_work()
        assert estate.driven == [("batch", batch.id)]
        assert await second.cluster.driving.claim(WorkKind.BATCH, batch.id)
        assert not await first.cluster.driving.claim(WorkKind.BATCH, batch.id)
