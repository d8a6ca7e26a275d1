"""Nodes that keep runs without answering, or lose them all: other nodes get their runs, and they get none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from itertools import cycle, islice
from pathlib import Path

import pytest
from sqlalchemy import text

from assayd.errors import RequestError
from assayd.kind import Kind
from assayd.kinds.extractor.validator import ExtractorKind
from assayd.kinds.module.validator import ModuleKind
from assayd.model.report import Verdict
from assayd.model.run import Limits
from assayd.model.submission import Peer
from assayd_cluster.documents import LiveEvents, RunLost
from assayd_cluster.gateway.broker_accounts import SharedAccount
from assayd_cluster.gateway.execution import LATE_CHECKS, MIN_SILENT_AGE_FULL_NODE_S
from assayd_cluster.gateway.failing_nodes import (
    MAX_LOST_RUNS,
    MAX_OVERDUE_RUNS,
    OVERDUE_WINDOW_S,
    NodeFailureCounter,
    compute_longest_run_s,
    may_have_trial,
)
from assayd_cluster.gateway.runs import NodeIdle
from assayd_cluster.nodes import FAILING_REASON, FULL, DatabaseNodes
from support.cluster.gateways import OneGateway, one_gateway, two_gateways
from support.stores.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres

TENANTS = (1, 2)


class SetTime:
    """A clock that a test sets."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
async def gateway(tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[OneGateway]:
    with postgres.empty_database() as url:
        async with one_gateway(tmp_path, url) as found:
            yield found


class Suspending(SharedAccount):
    """Records suspended accounts; can be out of order."""

    def __init__(self, *, works: bool = True) -> None:
        self.suspended: list[str] = []
        self._works = works

    async def suspend(self, node: str) -> None:
        if not self._works:
            raise RequestError("broker.accounts", "no answer", retryable=True)
        self.suspended.append(node)


async def let_pass(gateway: OneGateway, seconds: float) -> None:
    """Make the runs of all nodes older."""
    statement = text(f"UPDATE runs SET leased_at = leased_at - {int(seconds * 1_000_000)}")
    await gateway.access.write(lambda connection: connection.execute(statement).close())


async def lose(failing: NodeFailureCounter, node: str, number: int, tenants: Sequence[int] = TENANTS) -> None:
    """Have a node lose this number of runs, of the tenants in turn."""
    for tenant in islice(cycle(tenants), number):
        await failing.record_lost_run(node, tenant)


async def whys(gateway: OneGateway) -> dict[str, str]:
    return {node.name: node.why for node in await DatabaseNodes(gateway.access).list()}


@pytest.mark.parametrize(("kind", "longest_s"), [(ExtractorKind(), 150), (ModuleKind(), 240)])
def test_node_may_keep_a_run_for_its_extended_containers_and_a_minute(kind: Kind, longest_s: float) -> None:
    limits = Limits(timeout_s=30, unit_timeout_s=5, memory_bytes=1, max_processes=1)
    assert compute_longest_run_s(limits, trial=may_have_trial(kind)) == longest_s


async def test_run_that_its_node_keeps_for_too_long_goes_to_another_node(gateway: OneGateway) -> None:
    for node in ("hangs", "works"):
        await gateway.beat(node)
    attempt = await gateway.submit()
    old = await gateway.claim("hangs", await gateway.messages.next())
    await report(gateway, "hangs", attempt.id, "running")
    await watch(gateway, "hangs", attempt.id)
    assert gateway.messages.none()
    await let_pass(gateway, 600)
    await watch(gateway, "hangs", attempt.id, LATE_CHECKS - 1)
    assert gateway.messages.none()
    await watch(gateway, "hangs", attempt.id, 1)
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
        await let_pass(gateway, 600)
        await watch(gateway, node, attempt.id)
    with pytest.raises(RequestError):
        await gateway.claim("works", await gateway.messages.next())
    ended = await gateway.service.wait(attempt.id, 30)
    assert (ended.verdict, ended.error and ended.error.code) == (Verdict.ERROR, "run.lost")


async def test_node_that_keeps_several_runs_gets_no_more(gateway: OneGateway) -> None:
    for node in ("hangs", "works"):
        await gateway.beat(node)
    clock = SetTime()
    failing = NodeFailureCounter(gateway.access, SharedAccount(), monotonic=clock)
    for tenant in TENANTS:
        await failing.record_kept_run("hangs", tenant)
    clock.seconds += OVERDUE_WINDOW_S + 1
    await failing.record_kept_run("hangs", 1)
    assert await whys(gateway) == {"hangs": "", "works": ""}
    for tenant in TENANTS:
        await failing.record_kept_run("hangs", tenant)
    assert await whys(gateway) == {"hangs": FAILING_REASON, "works": ""}
    await DatabaseNodes(gateway.access).set_drained("hangs", drained=False)
    assert await whys(gateway) == {"hangs": "", "works": ""}


async def test_node_that_loses_every_run_gets_no_more(gateway: OneGateway) -> None:
    for node in ("loses", "works"):
        await gateway.beat(node)
    failing = NodeFailureCounter(gateway.access, SharedAccount())
    await lose(failing, "loses", MAX_LOST_RUNS - 1)
    failing.record_verdict("loses")
    await lose(failing, "loses", MAX_LOST_RUNS - 1)
    assert await whys(gateway) == {"loses": "", "works": ""}
    await lose(failing, "loses", 1)
    assert await whys(gateway) == {"loses": FAILING_REASON, "works": ""}


async def test_lost_runs_do_not_count_if_another_gateway_got_a_verdict_since(gateway: OneGateway) -> None:
    for node in ("works", "works-too"):
        await gateway.beat(node)
    clock = SetTime()
    failing = NodeFailureCounter(gateway.access, SharedAccount(), monotonic=clock)
    await lose(failing, "works", MAX_LOST_RUNS - 1)
    await gateway.submit()
    await gateway.finish_all("works", 1)
    clock.seconds += 60
    await lose(failing, "works", 1)
    assert await whys(gateway) == {"works": "", "works-too": ""}


async def test_failures_that_last_long_are_remembered_for_longer(gateway: OneGateway) -> None:
    for node in ("captured", "works"):
        await gateway.beat(node)
    clock = SetTime()
    failing = NodeFailureCounter(gateway.access, SharedAccount(), monotonic=clock)
    for tenant in islice(cycle(TENANTS), MAX_OVERDUE_RUNS):
        clock.seconds += OVERDUE_WINDOW_S
        await failing.record_kept_run("captured", tenant, began_s=OVERDUE_WINDOW_S - 1)
    assert await whys(gateway) == {"captured": FAILING_REASON, "works": ""}


async def test_failures_of_one_tenant_alone_drain_no_node(gateway: OneGateway) -> None:
    for node in ("healthy", "works"):
        await gateway.beat(node)
    failing = NodeFailureCounter(gateway.access, SharedAccount(), monotonic=SetTime())
    await lose(failing, "healthy", 3 * MAX_LOST_RUNS, tenants=(1,))
    for _ in range(3 * MAX_OVERDUE_RUNS):
        await failing.record_kept_run("healthy", 1)
    await lose(failing, "healthy", 1, tenants=(2,))
    assert await whys(gateway) == {"healthy": "", "works": ""}
    await failing.record_kept_run("healthy", 2)
    assert await whys(gateway) == {"healthy": FAILING_REASON, "works": ""}


@pytest.mark.parametrize("works", [True, False])
async def test_node_that_is_drained_reads_no_more_messages(gateway: OneGateway, works: bool) -> None:
    for node in ("loses", "works"):
        await gateway.beat(node)
    accounts = Suspending(works=works)
    failing = NodeFailureCounter(gateway.access, accounts)
    await lose(failing, "loses", MAX_LOST_RUNS)
    assert accounts.suspended == ["loses"] * works
    assert (await whys(gateway))["loses"] == FAILING_REASON


async def test_last_node_that_takes_work_goes_on(gateway: OneGateway) -> None:
    await gateway.beat("alone")
    await gateway.beat("idle", ready=False, reason="no engine")
    failing = NodeFailureCounter(gateway.access, SharedAccount())
    await lose(failing, "alone", MAX_LOST_RUNS)
    assert await whys(gateway) == {"alone": "", "idle": "no engine"}


@pytest.mark.parametrize(
    ("refused", "tenants", "why"),
    [(False, TENANTS, FAILING_REASON), (False, (1,), ""), (True, TENANTS, FAILING_REASON), (True, (1,), "")],
    ids=["two tenants", "one tenant", "refused by its daemon alone", "refused, one tenant"],
)
async def test_lost_runs_count_with_their_nodes(
    gateway: OneGateway, refused: bool, tenants: Sequence[int], why: str
) -> None:
    for node in ("loses", "works"):
        await gateway.beat(node, capacity=8)
    lost = RunLost(lost=True, reason="x", started=True, refused=refused)
    for number, tenant in enumerate(islice(cycle(tenants), MAX_LOST_RUNS)):
        peer = Peer(uid=tenant, gid=tenant, pid=1)
        attempt = await gateway.submit(f"# {number}\n", peer=peer)
        claimed = await gateway.claim("loses", await gateway.messages.next())
        await gateway.runs.record_lost_run("loses", attempt.id, claimed.run, lost)
        await gateway.finish_all("works", 1)
    assert (await whys(gateway))["loses"] == why


async def test_refusals_of_all_nodes_count_against_none(gateway: OneGateway) -> None:
    names = ("refuses", "refuses-too", "works")
    for node in names:
        await gateway.beat(node, capacity=8)
    refused = RunLost(lost=True, reason="x", started=True, refused=True)
    for number, tenant in enumerate(islice(cycle(TENANTS), MAX_LOST_RUNS)):
        peer = Peer(uid=tenant, gid=tenant, pid=1)
        attempt = await gateway.submit(f"# {number}\n", peer=peer)
        for node in names[:2]:
            claimed = await gateway.claim(node, await gateway.messages.next())
            await gateway.runs.record_lost_run(node, attempt.id, claimed.run, refused)
    assert await whys(gateway) == dict.fromkeys(names, "")


async def report(gateway: OneGateway, node: str, attempt: str, state: str, *, run: int = 1) -> None:
    """Have a node report a state of a run."""
    body = {"kind": "state", "body": {"state": state}, "run": 1, "seq": 2, "at": "2026-01-01T00:00:00Z"}
    await gateway.runs.record_events(node, attempt, run, LiveEvents.model_validate({"events": [body]}).events)


async def watch(
    gateway: OneGateway, node: str, attempt: str, times: int = LATE_CHECKS, *, waiting: int = 0
) -> None:
    """Have a gateway look so often at a node that lists an attempt, which it claimed a while ago."""
    await gateway.beat(node, runs=[attempt], waiting=waiting)
    await let_pass(gateway, 20)
    for _ in range(times):
        await gateway.cluster.execution.republish_stray_attempts()


async def test_run_of_which_nothing_is_heard_goes_to_another_node(gateway: OneGateway) -> None:
    for node in ("silent", "works"):
        await gateway.beat(node)
    attempt = await gateway.submit()
    old = await gateway.claim("silent", await gateway.messages.next())
    await watch(gateway, "silent", attempt.id, LATE_CHECKS - 1)
    assert gateway.messages.none()
    await watch(gateway, "silent", attempt.id, 1)
    claimed = await gateway.claim("works", await gateway.messages.next())
    with pytest.raises(RequestError, match="run"):
        await gateway.bring("silent", attempt.id, old)
    assert (claimed.run, await gateway.bring("works", attempt.id, claimed)) == (2, True)
    taken_back = gateway.cluster.metrics.taken_back.labels("silent")
    assert taken_back._value.get() == gateway.cluster.readiness._queue.reclaimed_runs == 1


async def test_node_that_stops_listing_a_run_for_a_moment_does_not_restart_the_looks(
    gateway: OneGateway,
) -> None:
    for node in ("silent", "works"):
        await gateway.beat(node)
    attempt = await gateway.submit()
    await gateway.claim("silent", await gateway.messages.next())
    await watch(gateway, "silent", attempt.id, LATE_CHECKS - 1)
    await gateway.beat("silent")
    await gateway.cluster.execution.republish_stray_attempts()
    await watch(gateway, "silent", attempt.id, 1)
    taken_back = gateway.cluster.metrics.taken_back.labels("silent")
    assert taken_back._value.get() == 1
    await gateway.finish_all("works", 1)


async def test_run_that_its_node_has_reported_stays_there(gateway: OneGateway) -> None:
    await gateway.beat("works")
    attempt = await gateway.submit()
    await gateway.claim("works", await gateway.messages.next())
    await report(gateway, "works", attempt.id, "checking")
    await watch(gateway, "works", attempt.id)
    assert gateway.messages.none()


async def test_second_run_has_its_whole_time(gateway: OneGateway) -> None:
    for node in ("silent", "slow"):
        await gateway.beat(node)
    attempt = await gateway.submit()
    await gateway.claim("silent", await gateway.messages.next())
    await watch(gateway, "silent", attempt.id)
    claimed = await gateway.claim("slow", await gateway.messages.next())
    await watch(gateway, "slow", attempt.id)
    assert gateway.messages.none()
    gateway.runs.forget()
    assert await gateway.bring("slow", attempt.id, claimed)


async def test_runs_that_fail_together_count_once(gateway: OneGateway) -> None:
    for node in ("restarts", "works"):
        await gateway.beat(node)
    clock = SetTime()
    failing = NodeFailureCounter(gateway.access, SharedAccount(), monotonic=clock)
    for tenant in islice(cycle(TENANTS), 3 * MAX_OVERDUE_RUNS):
        await failing.record_kept_run("restarts", tenant, began_s=20)
    assert (await whys(gateway))["restarts"] == ""
    for _ in range(MAX_OVERDUE_RUNS - 1):
        clock.seconds += 21
        await failing.record_kept_run("restarts", 1, began_s=20)
    assert (await whys(gateway))["restarts"] == FAILING_REASON


async def test_node_that_claims_more_runs_than_it_may_have_gets_no_more(gateway: OneGateway) -> None:
    await gateway.beat("greedy", capacity=1)
    await gateway.beat("works", capacity=16)
    clock = SetTime()
    gateway.runs._failing._monotonic = clock
    for number, tenant in enumerate(islice(cycle(TENANTS), 2 + MAX_OVERDUE_RUNS)):
        assert (await whys(gateway))["greedy"] == ""
        clock.seconds += 20
        await gateway.submit(f"# {number}\n", peer=Peer(uid=tenant, gid=tenant, pid=1))
        message = await gateway.messages.next()
        with pytest.raises(NodeIdle, match="in hand") if number >= 2 else nullcontext():
            await gateway.claim("greedy", message)
        if number >= 2:
            await gateway.finish_all("works", 1)
    assert (await whys(gateway))["greedy"] == FAILING_REASON


async def test_second_run_that_began_late_has_its_whole_time(gateway: OneGateway) -> None:
    for node in ("silent", "busy"):
        await gateway.beat(node)
    attempt = await gateway.submit()
    await gateway.claim("silent", await gateway.messages.next())
    await watch(gateway, "silent", attempt.id)
    claimed = await gateway.claim("busy", await gateway.messages.next())
    await report(gateway, "busy", attempt.id, "running", run=2)
    await let_pass(gateway, 3600)
    await watch(gateway, "busy", attempt.id)
    gateway.runs.forget()
    assert await gateway.bring("busy", attempt.id, claimed)


async def test_run_that_waits_in_a_full_daemon_has_more_time(gateway: OneGateway) -> None:
    for node in ("full", "works"):
        await gateway.beat(node)
    attempt = await gateway.submit()
    await gateway.claim("full", await gateway.messages.next())
    await watch(gateway, "full", attempt.id, waiting=1)
    assert (gateway.messages.none(), await whys(gateway)) == (True, {"full": FULL, "works": ""})
    await let_pass(gateway, MIN_SILENT_AGE_FULL_NODE_S)
    await watch(gateway, "full", attempt.id, waiting=1)
    await gateway.finish_all("works", 1)


async def test_full_node_gets_no_run_and_its_cluster_accepts_attempts(gateway: OneGateway) -> None:
    await gateway.beat("full")
    await gateway.submit()
    await gateway.beat("full", waiting=1)
    assert gateway.cluster.readiness.ready() == (True, "")
    await gateway.submit("# waits in the gateway's queue")
    message = await gateway.messages.next()
    with pytest.raises(NodeIdle):
        await gateway.claim("full", message)
    await gateway.beat("full")
    await gateway.finish_all("full", 2)


async def test_node_that_says_whenever_it_has_a_run_that_it_is_full_is_drained(gateway: OneGateway) -> None:
    clock = SetTime()
    gateway.runs._failing._monotonic = clock
    await gateway.beat("works")
    for number, tenant in enumerate(islice(cycle(TENANTS), MAX_OVERDUE_RUNS)):
        await gateway.beat("captured")
        attempt = await gateway.submit(f"# {number}\n", peer=Peer(uid=tenant, gid=tenant, pid=1))
        await gateway.claim("captured", await gateway.messages.next())
        clock.seconds += 60
        await let_pass(gateway, MIN_SILENT_AGE_FULL_NODE_S)
        await watch(gateway, "captured", attempt.id, waiting=1)
        await gateway.finish_all("works", 1)
    assert (await whys(gateway))["captured"] == FAILING_REASON


@pytest.mark.parametrize(
    ("waiting", "passed_s", "why"),
    [(1, 600, FULL), (0, 600, FAILING_REASON), (0, 0, "")],
    ids=["full node", "other node", "clock of the database was set forward"],
)
async def test_overdue_runs_count_once_unless_the_node_kept_each(
    gateway: OneGateway, waiting: int, passed_s: float, why: str
) -> None:
    await gateway.beat("busy")
    attempts = []
    for number, tenant in enumerate(islice(cycle(TENANTS), MAX_OVERDUE_RUNS)):
        peer = Peer(uid=tenant, gid=tenant, pid=1)
        attempts.append((await gateway.submit(f"# {number}\n", peer=peer)).id)
        await gateway.claim("busy", await gateway.messages.next())
        await report(gateway, "busy", attempts[-1], "leasing")
    await gateway.beat("works")
    await gateway.beat("busy", runs=attempts, waiting=waiting)
    await let_pass(gateway, 600)
    for attempt_id in attempts:
        gateway.cluster.execution._pending_attempts[attempt_id].began -= passed_s
    for _ in range(LATE_CHECKS):
        await gateway.cluster.execution.republish_stray_attempts()
    await gateway.finish_all("works", MAX_OVERDUE_RUNS)
    assert (await whys(gateway))["busy"] == why


async def test_refusal_at_one_gateway_counts_with_the_verdict_at_another(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    refused = RunLost(lost=True, reason="x", started=True, refused=True)
    with postgres.empty_database() as url:
        async with two_gateways(tmp_path, url) as (first, second):
            await first.beat("refuses")
            await lose(second.runs._failing, "refuses", MAX_LOST_RUNS - 1)
            attempt = await first.submit()
            claimed = await first.claim("refuses", await first.messages.next())
            await first.runs.record_lost_run("refuses", attempt.id, claimed.run, refused)
            async with asyncio.timeout(30):
                while attempt.id not in second.runs._refused:
                    await asyncio.sleep(0.01)
            message = await first.messages.next()
            assert await second.bring("a", attempt.id, await second.claim("a", message))
            assert (await whys(second))["refuses"] == FAILING_REASON
