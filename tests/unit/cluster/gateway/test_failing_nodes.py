"""Nodes that keep runs and never answer, or lose all of them: others get their runs, and they get no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from assayd.errors import RequestError
from assayd.model.report import Verdict
from assayd.model.run import Limits
from assayd_cluster.documents import RunLost
from assayd_cluster.gateway.broker_accounts import SharedAccount
from assayd_cluster.gateway.failing_nodes import (
    MOST_LOST,
    MOST_OVERDUE,
    OVERDUE_WITHIN_S,
    FailingNodes,
    longest_run_s,
)
from assayd_cluster.nodes import FAILING, DatabaseNodes
from support.cluster.gateways import OneGateway, one_gateway
from support.stores.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres


class SetTime:
    """A clock that a test moves."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
async def gateway(tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[OneGateway]:
    with postgres.empty_database() as url:
        async with one_gateway(tmp_path, url) as found:
            yield found


class Suspending(SharedAccount):
    """Notes whose accounts are suspended; can be out of order."""

    def __init__(self, *, works: bool = True) -> None:
        self.suspended: list[str] = []
        self._works = works

    async def suspend(self, node: str) -> None:
        if not self._works:
            raise RequestError("broker.accounts", "no answer", retryable=True)
        self.suspended.append(node)


async def let_pass(gateway: OneGateway, seconds: float) -> None:
    """Let the runs of all nodes have begun earlier."""
    statement = text(f"UPDATE runs SET leased_at = leased_at - {int(seconds * 1_000_000)}")
    await gateway.access.write(lambda connection: connection.execute(statement).close())


async def whys(gateway: OneGateway) -> dict[str, str]:
    return {node.name: node.why for node in await DatabaseNodes(gateway.access).list()}


def test_node_may_keep_a_run_for_two_containers_and_a_minute() -> None:
    limits = Limits(timeout_s=30, unit_timeout_s=5, memory_bytes=1, max_processes=1)
    assert longest_run_s(limits) == 120


async def test_run_that_its_node_keeps_for_too_long_goes_to_another_node(gateway: OneGateway) -> None:
    for node in ("hangs", "works"):
        await gateway.beat(node)
    attempt = await gateway.submit()
    old = await gateway.claim("hangs", await gateway.messages.next())
    await gateway.beat("hangs", runs=[attempt.id])
    await let_pass(gateway, 20)
    await gateway.cluster.execution.watch()
    assert gateway.messages.none()
    await let_pass(gateway, 600)
    await gateway.cluster.execution.watch()
    claimed = await gateway.claim("works", await gateway.messages.next())
    with pytest.raises(RequestError, match="run"):
        await gateway.bring("hangs", attempt.id, old)
    assert (claimed.run, await gateway.bring("works", attempt.id, claimed)) == (2, True)


async def test_attempt_whose_second_run_is_kept_too_ends(gateway: OneGateway) -> None:
    for node in ("hangs", "hangs-too", "works"):
        await gateway.beat(node)
    attempt = await gateway.submit()
    for node in ("hangs", "hangs-too"):
        await gateway.claim(node, await gateway.messages.next())
        await gateway.beat(node, runs=[attempt.id])
        await let_pass(gateway, 600)
        await gateway.cluster.execution.watch()
    with pytest.raises(RequestError):
        await gateway.claim("works", await gateway.messages.next())
    ended = await gateway.service.wait(attempt.id, 30)
    assert (ended.verdict, ended.error and ended.error.code) == (Verdict.ERROR, "run.lost")


async def test_node_that_keeps_several_runs_gets_no_more(gateway: OneGateway) -> None:
    for node in ("hangs", "works"):
        await gateway.beat(node)
    clock = SetTime()
    failing = FailingNodes(gateway.access, SharedAccount(), monotonic=clock)
    for _ in range(MOST_OVERDUE - 1):
        await failing.note_overdue("hangs")
    clock.seconds += OVERDUE_WITHIN_S + 1
    await failing.note_overdue("hangs")
    assert await whys(gateway) == {"hangs": "", "works": ""}
    for _ in range(MOST_OVERDUE - 1):
        await failing.note_overdue("hangs")
    assert await whys(gateway) == {"hangs": FAILING, "works": ""}
    await DatabaseNodes(gateway.access).set_drained("hangs", drained=False)
    assert await whys(gateway) == {"hangs": "", "works": ""}


async def test_node_that_loses_every_run_gets_no_more(gateway: OneGateway) -> None:
    for node in ("loses", "works"):
        await gateway.beat(node)
    failing = FailingNodes(gateway.access, SharedAccount())
    for _ in range(MOST_LOST - 1):
        await failing.note_lost("loses")
    failing.note_verdict("loses")
    await failing.note_lost("loses")
    assert await whys(gateway) == {"loses": "", "works": ""}
    for _ in range(MOST_LOST - 1):
        await failing.note_lost("loses")
    assert await whys(gateway) == {"loses": FAILING, "works": ""}


@pytest.mark.parametrize("works", [True, False])
async def test_node_that_is_drained_reads_no_more_messages(gateway: OneGateway, works: bool) -> None:
    for node in ("loses", "works"):
        await gateway.beat(node)
    accounts = Suspending(works=works)
    failing = FailingNodes(gateway.access, accounts)
    for _ in range(MOST_LOST):
        await failing.note_lost("loses")
    assert accounts.suspended == ["loses"] * works
    assert (await whys(gateway))["loses"] == FAILING


async def test_last_node_that_takes_work_goes_on(gateway: OneGateway) -> None:
    await gateway.beat("alone")
    await gateway.beat("idle", ready=False, reason="no engine")
    failing = FailingNodes(gateway.access, SharedAccount())
    for _ in range(MOST_LOST):
        await failing.note_lost("alone")
    assert await whys(gateway) == {"alone": "", "idle": "no engine"}


async def test_lost_runs_count_with_their_nodes(gateway: OneGateway) -> None:
    for node in ("loses", "works"):
        await gateway.beat(node, capacity=8)
    lost = RunLost(lost=True, reason="x", started=True)
    for number in range(MOST_LOST):
        attempt = await gateway.submit(f"# {number}\n")
        claimed = await gateway.claim("loses", await gateway.messages.next())
        await gateway.runs.lose("loses", attempt.id, claimed.run, lost)
        await gateway.finish_all("works", 1)
    assert (await whys(gateway))["loses"] == FAILING
