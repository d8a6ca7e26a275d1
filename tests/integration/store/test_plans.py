"""How a PostgreSQL server finds what is asked for among 20,000 attempts: by indexes.

What is unfinished is not among it: that has no row to be found by, and all attempts are read for it. A rule
or a cause that few have is looked for in all verdicts: here that costs less than to walk from the newest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, event

from assayd.model.attempt import State
from assayd.model.records import AttemptQuery
from assayd.model.report import Verdict
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import open_job_store
from support.cluster.gateways import one_gateway
from support.stores.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres

COUNT = 20_000
START = datetime(2026, 3, 1, tzinfo=UTC)
FILL = """
INSERT INTO submissions VALUES ('s', 'x');
INSERT INTO batches (id, name, uid, gid, pid, created_at, concurrency, dedupe, complete)
    SELECT 'b' || i, 'b' || i, 1000 + i % 2, 0, 0, i, 1, 0, 1 FROM generate_series(1, 2000) i;
INSERT INTO attempts (id, submission, kind, policy, input_digest, created_at, uid, gid, pid, batch_id,
                      attempt_number, labels)
    SELECT lpad(i::text, 26, '0'), 's', CASE i % 3 WHEN 0 THEN 'code' ELSE 'script' END, 'code', 'd',
           {start} + i * 1000000::bigint, CASE i % 100 WHEN 0 THEN 1001 ELSE 1000 END, 0, 0,
           CASE WHEN i % 200 = 0 THEN 'b1' END, 1, '{{}}'
    FROM generate_series(1, {count}) i;
INSERT INTO labels SELECT lpad(i::text, 26, '0'), 'team', 't' || i % 500 FROM generate_series(1, {count}) i;
INSERT INTO verdicts (attempt_id, run_number, verdict, cause, finished_at, timings, artifacts, rules)
    SELECT lpad(i::text, 26, '0'), 1, CASE i % 2 WHEN 0 THEN 'validated' ELSE 'failed' END,
           CASE i % 5 WHEN 0 THEN 'wall_time' ELSE 'completed' END, {start} + i * 1000000::bigint, '{{}}',
           '[]', CASE i % 5 WHEN 0 THEN '["code.import"]' ELSE '[]' END
    FROM generate_series(1, {count}) i;
INSERT INTO runs SELECT lpad(i::text, 26, '0'), 1, 'a', '', '', {start}, 9000000000000000
    FROM generate_series(1, {count}) i;
ANALYZE;
"""


@pytest.fixture(scope="module")
def url(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    async def make(url: str) -> None:
        async with open_job_store(tmp_path_factory.mktemp("state"), url, ()):
            pass

    with postgres.empty_database() as url:
        asyncio.run(make(url))
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(FILL.format(count=COUNT, start=int(START.timestamp() * 1_000_000)).encode())
        yield url


class Plans:
    """The query plans of a server, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def explain(self, connection: Any, cursor: Any, statement: str, parameters: Any, *_: object) -> None:
        if statement.startswith("SELECT"):
            cursor.execute(f"EXPLAIN {statement}", parameters)
            self.lines += [row[0] for row in cursor.fetchall()]

    def take(self) -> str:
        """Return the plans since the previous call."""
        lines, self.lines = self.lines, []
        return "\n".join(lines)


@pytest.fixture
def plans() -> Iterator[Plans]:
    plans = Plans()
    event.listen(Engine, "before_cursor_execute", plans.explain)
    yield plans
    event.remove(Engine, "before_cursor_execute", plans.explain)


QUERIES = {
    "all": AttemptQuery(),
    "user": AttemptQuery(uid=1001),
    "label": AttemptQuery(labels=(("team", "t7"),)),
    "label of a user": AttemptQuery(labels=(("team", "t100"),), uid=1001),
    "rule": AttemptQuery(rule="code.import"),
    "cause": AttemptQuery(cause="wall_time"),
    "verdict": AttemptQuery(verdict=Verdict.FAILED),
    "kind": AttemptQuery(kind="code"),
    "batch": AttemptQuery(batch_id="b1"),
    "finished of a user": AttemptQuery(state=State.FINISHED, uid=1001),
    "since": AttemptQuery(since=START + timedelta(seconds=COUNT - 50)),
    "beginning of an id": AttemptQuery(id_prefix="0" * 22 + "12"),
}


async def test_page_of_a_list_is_found_without_reading_all_attempts(
    tmp_path: Path, url: str, plans: Plans
) -> None:
    read_all = {}
    async with open_job_store(tmp_path, url, ()) as jobs:
        for name, query in QUERIES.items():
            plans.take()
            assert (await jobs.list(query)).attempts, name
            if "Seq Scan on attempts" in (plan := plans.take()):
                read_all[name] = plan
        batches = DatabaseBatchStore(jobs.access)
        first = await batches.list(uid=None, cursor=None, limit=20)
        assert len((await batches.list(uid=1001, cursor=first.next_cursor, limit=20)).batches) == 20
    assert read_all == {}
    assert "Seq Scan on batches" not in plans.take()


async def test_claim_reads_neither_all_runs_nor_the_whole_outbox(
    tmp_path: Path, url: str, plans: Plans
) -> None:
    async with one_gateway(tmp_path, url) as gateway:
        await gateway.beat("a", runs=["0" * 25 + "1"])
        await gateway.submit()
        message = await gateway.messages.next()
        await gateway.claim("a", message)
        plans.take()
        claimed = await gateway.claim("a", message)  # by the same words, but in a statement of its own
        plan = plans.take()
        await gateway.bring("a", message.attempt, claimed)
    assert "ix_runs_daemon_id" in plan
    assert "Seq Scan on runs" not in plan
    assert "Seq Scan on dispatches" not in plan
