"""Counts waiting attempts and stored bundles in the database, for gauges."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import structlog

from assayd.errors import StoreError
from assayd.metrics import Metrics
from assayd.store.batches import DatabaseBatchStore
from assayd.store.jobs import DatabaseJobStore
from assayd.store.outbox import Outbox

log = structlog.get_logger()

COUNTED_EVERY_S = 30.0


async def keep_counting(
    metrics: Metrics, jobs: DatabaseJobStore, batches: DatabaseBatchStore, outbox: Outbox
) -> NoReturn:
    """Update the gauges of waiting items, waiting messages and bundles periodically."""
    while True:
        try:
            await count(metrics, jobs, batches, outbox)
        except StoreError as trouble:
            log.error("backlog.not_counted", code=trouble.code)
        await asyncio.sleep(COUNTED_EVERY_S)


async def count(
    metrics: Metrics, jobs: DatabaseJobStore, batches: DatabaseBatchStore, outbox: Outbox
) -> None:
    """Set the gauges once. Raises: StoreError."""
    metrics.batch_items_waiting.set(await batches.backlog())
    metrics.webhook_messages.set((await outbox.undelivered()).count)
    metrics.bundle_bytes.set(sum(usage.disk_bytes for usage in (await jobs.usage()).values()))
