"""Gateways in this process, on a PostgreSQL server for tests; a test receives the messages itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import text

from assayd import __version__
from assayd.documents import read_submission
from assayd.model.attempt import Attempt
from assayd.model.submission import Peer
from assayd.wiring import PartOverrides
from assayd_cluster.documents import Claim, ClaimedRun, NodeHeartbeat, RunVerdict
from assayd_cluster.gateway.outbox import BrokerMessage, Count, DispatchOutbox
from assayd_cluster.gateway.wiring import Gateway, build_gateway
from assayd_cluster.settings import ClusterSettings, GatewaySettings
from support.cluster.stub_node import verdict_of
from support.daemons.small_daemon import Gate, SmallAnalyst

CODE = "import re\n\ndef extract(path: str) -> dict:\n    return {'name': path}\n"
PEER = Peer(uid=1000, gid=1000, pid=1)


class Messages:
    """The published messages in order, in place of a broker."""

    problem = ""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[BrokerMessage] = asyncio.Queue()

    @asynccontextmanager
    async def running(self, dispatches: DispatchOutbox, count: Count) -> AsyncIterator[None]:
        self._dispatches = dispatches
        yield

    async def publish(self, message: BrokerMessage) -> None:
        await self._dispatches.record_published([message.attempt])
        self._waiting.put_nowait(message)

    async def next(self) -> BrokerMessage:
        """Wait for the next message and return it."""
        return await asyncio.wait_for(self._waiting.get(), 30)

    def none(self) -> bool:
        return self._waiting.empty()


class OneGateway:
    """A gateway, with the requests of nodes and clients."""

    def __init__(self, gateway: Gateway, messages: Messages) -> None:
        self.gateway = gateway
        self.cluster = gateway.cluster
        self.messages = messages
        self.service = gateway.parts.service
        self.jobs = gateway.parts.basics.jobs
        self.access = gateway.cluster.basics.access
        self.runs = gateway.cluster.door.runs

    def deaf(self) -> None:
        """Stop the gateway from receiving notices."""
        notices = self.runs._notices
        for kind in ("again", "finished", "exhausted"):
            notices.register_callback(kind, lambda _: None)

    def profiles(self) -> dict[str, str]:
        policies = self.gateway.parts.basics.policies
        return {name: policies.get(name).digest for name in policies.names}

    async def beat(self, node: str, **changes: object) -> None:
        """Send a node's heartbeat, and have this gateway read it."""
        said = {"capacity": 4, "ready": True, "version": __version__, "profiles": self.profiles(), **changes}
        await self.cluster.door.nodes.beat(node, NodeHeartbeat.model_validate(said))
        await self.cluster.readiness.check_nodes()

    async def submit(
        self, code: str = CODE, *, peer: Peer = PEER, parent_id: str | None = None, **origin: str
    ) -> Attempt:
        payload = {"code": code, "sample_paths": ["/data/a.csv"]}
        text = json.dumps({"kind": "extractor", "payload": payload, "parent_id": parent_id}).encode()
        submission = read_submission(text, self.service.kinds)
        return (await self.service.submit(submission, peer=peer, **origin)).attempt

    async def claim(self, node: str, message: BrokerMessage) -> ClaimedRun:
        return await self.runs.claim(node, Claim(attempt=message.attempt, ticket=message.ticket))

    async def bring(self, node: str, attempt: str, claimed: ClaimedRun, **changes: object) -> bool:
        said = json.dumps(verdict_of(attempt, claimed.model_dump(), **changes))
        return await self.runs.record_verdict(
            node, attempt, claimed.run, RunVerdict.model_validate_json(said)
        )

    async def finish_all(self, node: str, count: int) -> None:
        """Have a node run this number of messages."""
        for _ in range(count):
            message = await self.messages.next()
            await self.bring(node, message.attempt, await self.claim(node, message))

    async def inherit(self) -> int:
        """Adopt orphaned work; return the number of attempts."""
        estate = await self.cluster.membership.adopt_orphaned_work()
        await self.gateway.continue_adopted_work(estate)
        return len(estate.attempts)


@asynccontextmanager
async def one_gateway(
    folder: Path, database_url: str, name: str = "gateway", *, database_mb: int = 10_000, **more: Any
) -> AsyncIterator[OneGateway]:
    """Run a gateway while the body runs; all gateways of a folder share their bundles."""
    (folder / "url").write_text(database_url)
    (folder / name).mkdir()
    bundles = {"directory": folder / "bundles"}
    cluster = ClusterSettings(database_url_file=folder / "url", bundles=bundles, database_mb=database_mb)
    settings = GatewaySettings(state_dir=folder / name, policy_folders=(), cluster=cluster, **more)
    messages = Messages()
    async with AsyncExitStack() as stack:
        overrides = PartOverrides(analyst=SmallAnalyst(Gate()))
        gateway = await build_gateway(settings, stack, messages, overrides)
        stack.callback(gateway.parts.scheduler.release_waiters)
        yield OneGateway(gateway, messages)


@asynccontextmanager
async def two_gateways(folder: Path, url: str) -> AsyncIterator[tuple[OneGateway, OneGateway]]:
    """Run two gateways with one node while the body runs; yields the oldest one first."""
    async with one_gateway(folder, url, "first") as first, one_gateway(folder, url, "second") as second:
        await first.beat("a")
        await second.cluster.readiness.check_nodes()
        yield first, second


async def silence(gateway: OneGateway, table: str, key: str, name: str) -> None:
    """Make a node or gateway look as if it hadn't sent a heartbeat for a long time."""
    statement = text(f"UPDATE {table} SET beat_at = 0 WHERE {key} = :name")
    await gateway.access.write(lambda connection: connection.execute(statement, {"name": name}).close())
