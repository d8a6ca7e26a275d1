"""Derives the limits of all parts from the settings."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

from assayd.analysis.analyst import AnalysisLimits
from assayd.api import ApiLimits
from assayd.attempts.retention import RetentionLimits
from assayd.attempts.scheduler import QueueLimits
from assayd.batches import BatchLimits, LineCaps
from assayd.documents import PayloadCaps
from assayd.model.run import Limits
from assayd.sandbox.pool.decide import PoolDemand, PoolLimits
from assayd.settings import Settings

MAX_IDLE_PER_KEY = 16
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonLimits:
    """The limits of each part. The limits in `attempt` apply to every attempt, whatever its policy."""

    queue: QueueLimits
    keep: RetentionLimits
    analysis: AnalysisLimits
    attempt: Limits
    payload: PayloadCaps
    api: ApiLimits
    batch: BatchLimits
    library_bytes: int
    pool: PoolLimits


def derive_limits(settings: Settings) -> DaemonLimits:
    """Return the limits that the settings define, converted from megabytes to bytes."""
    limits, caps, keep, analysis = settings.limits, settings.caps, settings.retention, settings.analysis
    payload = PayloadCaps(
        source_bytes=caps.source_bytes,
        inputs_bytes=caps.inputs_bytes,
        sample_paths=caps.sample_paths,
        steps=caps.steps,
    )
    return DaemonLimits(
        queue=QueueLimits(
            length=limits.queue_length, bytes=limits.queue_mb * MIB, per_uid=limits.attempts_per_uid
        ),
        keep=RetentionLimits(
            days=keep.days,
            attempts=keep.attempts,
            disk_bytes=keep.bundles_mb * MIB,
            min_free_bytes=limits.min_free_mb * MIB,
        ),
        analysis=AnalysisLimits(
            workers=analysis.workers, memory_bytes=analysis.memory_mb * MIB, cpu_s=analysis.cpu_s
        ),
        attempt=caps.limits(),
        payload=payload,
        api=ApiLimits(
            body_bytes=caps.body_bytes,
            payload=payload,
            **limits.model_dump(include={"silence_s", "body_s", "batch_body_s"}),
        ),
        batch=BatchLimits(
            per_uid=limits.batches_per_uid,
            concurrency=limits.batch_concurrency,
            silent_upload=timedelta(hours=limits.silent_upload_h),
            lines=LineCaps(line_bytes=caps.body_bytes, payload=payload, lines=limits.batch_lines),
        ),
        library_bytes=limits.library_mb_per_uid * MIB,
        pool=PoolLimits(
            refill_concurrency=settings.pool.refill_concurrency,
            idle_memory_bytes=settings.pool.ceiling_idle_memory_mb * MIB,
            max_idle_s=settings.pool.max_idle_age_s,
            processors=len(os.sched_getaffinity(0)),
        ),
    )


def build_pool_demand(settings: Settings, *, quick: bool) -> PoolDemand:
    """Return the settings for the pool's demand. Args: quick: see `ports.engine.Capabilities`."""
    pool = settings.pool
    if not pool.enabled:
        return PoolDemand(base=0, unused=0, most=0)
    base = (2 if quick else 4) if pool.default_target is None else pool.default_target
    return PoolDemand(base=base, unused=pool.unused_target, most=MAX_IDLE_PER_KEY)
