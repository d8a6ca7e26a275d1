"""Accepting an attempt at a gateway: one statement on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, select

from assayd.errors import RequestError
from assayd.store.tables import build_attempt_values, submissions
from assayd_cluster.gateway.notices import GatewayNotices
from assayd_cluster.gateway.recording import GatewayJobRows
from support.cluster.gateways import OneGateway, one_gateway
from support.stores.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres


@pytest.fixture
async def gateway(tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[OneGateway]:
    with postgres.database() as url:
        async with one_gateway(tmp_path, url) as found:
            yield found


async def test_submission_is_written_with_its_attempt_alone(gateway: OneGateway) -> None:
    await gateway.beat("a")
    attempt = await gateway.submit()
    rows = GatewayJobRows(gateway.cluster.gateway_id, GatewayNotices("postgresql://localhost", "x"))

    def accept(connection: Connection) -> tuple[bool, int]:
        new = rows.accept(connection, attempt, build_attempt_values(attempt, "d" * 64, None), b"[]")
        return new, connection.execute(select(func.count()).select_from(submissions)).scalar_one()

    assert await gateway.access.write(accept) == (False, 1)
    other = replace(attempt, id=attempt.id[:-1] + ("0" if attempt.id[-1] != "0" else "1"))

    def accept_other(connection: Connection) -> tuple[bool, int]:
        new = rows.accept(connection, other, build_attempt_values(other, "d" * 64, None), b"[]")
        return new, connection.execute(select(func.count()).select_from(submissions)).scalar_one()

    assert await gateway.access.write(accept_other) == (True, 2)


@pytest.mark.parametrize("size", [1, 100_000])
async def test_id_that_is_on_record_is_refused_for_another_submission(gateway: OneGateway, size: int) -> None:
    await gateway.beat("a")
    attempt = await gateway.submit()
    with pytest.raises(RequestError, match="already used for another submission"):
        await gateway.submit("#" * size + "\n", attempt_id=attempt.id)
    assert (await gateway.submit(attempt_id=attempt.id)).id == attempt.id
