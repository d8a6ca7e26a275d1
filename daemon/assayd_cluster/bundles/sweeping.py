"""Removes bundles that no verdict names, when they are old enough that nobody is about to name them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import structlog
from sqlalchemy import Connection, bindparam, select

from assayd.aio import task_group
from assayd.errors import StoreError
from assayd.store.access import DatabaseAccess
from assayd.store.artifacts import OTHERS_S
from assayd.store.tables import verdicts
from assayd_cluster.bundles.verified import VerifiedArtifactStore

log = structlog.get_logger()

EVERY_S = 6 * 3600.0
AT_ONCE = 500
_COUNTING = select(verdicts.c.bundle).where(verdicts.c.attempt_id.in_(bindparam("ids", expanding=True)))


@asynccontextmanager
async def sweeping(bundles: VerifiedArtifactStore, access: DatabaseAccess) -> AsyncIterator[None]:
    """Sweep again and again while the body runs. Several gateways may: what is gone is fine."""
    async with task_group() as tasks:
        keeping = tasks.create_task(_keep_sweeping(bundles, access), name="sweep-bundles")
        try:
            yield
        finally:
            keeping.cancel()


async def _keep_sweeping(bundles: VerifiedArtifactStore, access: DatabaseAccess) -> None:
    while True:
        await asyncio.sleep(EVERY_S)
        try:
            count = await bundles.sweep() + await sweep_unnamed(bundles, access)
        except StoreError as trouble:
            log.warning("bundles.not_swept", code=trouble.code)
        else:
            log.info("bundles.swept", count=count)


async def sweep_unnamed(bundles: VerifiedArtifactStore, access: DatabaseAccess) -> int:
    """Remove whole bundles that are old and that no verdict names; return how many. Raises: StoreError."""
    removed, old = 0, []
    async for location, age_s, is_whole in bundles.locations():
        if is_whole and age_s > OTHERS_S:
            old.append(location)
        if len(old) == AT_ONCE:
            removed += await _remove_unnamed(bundles, access, old)
            old = []
    return removed + await _remove_unnamed(bundles, access, old)


async def _remove_unnamed(
    bundles: VerifiedArtifactStore, access: DatabaseAccess, locations: Sequence[str]
) -> int:
    ids = [location.rpartition("/")[2].partition("_")[2][:26] for location in locations]

    def fetch(connection: Connection) -> set[str | None]:
        return set(connection.execute(_COUNTING, {"ids": ids}).scalars())

    named = await access.read(fetch)
    unnamed = [location for location in locations if location not in named]
    for location in unnamed:
        await bundles.remove(location)
    return len(unnamed)
