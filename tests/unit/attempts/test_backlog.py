"""Gauges whose values only the database knows."""

from __future__ import annotations

from pathlib import Path

from assayd.attempts.backlog import count
from assayd.metrics import Metrics
from assayd.store.outbox import Outbox
from support.daemons.small_daemon import small_daemon


async def test_gauges_show_stored_bundles_and_nothing_that_waits(tmp_path: Path) -> None:
    metrics = Metrics()
    async with small_daemon(tmp_path) as daemon:
        await daemon.finished(await daemon.accept())
        await count(metrics, daemon.jobs, daemon.batch_store, Outbox(daemon.jobs.access))
        stored = sum(usage.disk_bytes for usage in (await daemon.jobs.usage()).values())
    values = metrics.render().decode()
    assert stored > 0
    assert f"assayd_bundle_bytes {float(stored)}" in values
    assert "assayd_batch_items_waiting 0.0" in values
    assert "assayd_webhook_messages_waiting 0.0" in values


async def test_oldest_attempt_is_among_those_that_wait_and_those_under_way(tmp_path: Path) -> None:
    async with small_daemon(tmp_path) as daemon:
        assert daemon.scheduler.oldest() is None
        daemon.checks.open.clear()
        first = await daemon.accept()
        await daemon.accept("x = 2")
        assert daemon.scheduler.oldest() == first.created_at
        daemon.checks.open.set()
