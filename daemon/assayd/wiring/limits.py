"""Derives the limits of all parts from the settings."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import timedelta

from assayd.analysis.analyst import AnalysisLimits
from assayd.api import ApiLimits
from assayd.attempts.retention import RetentionLimits
from assayd.attempts.scheduler import QueueLimits
from assayd.batches import BatchLimits, LineCaps
from assayd.documents import PayloadCaps
from assayd.model.run import Limits
from assayd.sandbox.pool_decisions import PoolDemand, PoolLimits
from assayd.settings import Settings

MAX_IDLE_PER_KEY = 16
MAX_OWN_CONTAINERS = 4
"""Containers that the daemon itself can have if executors run the attempts: for samples and checks."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of shared limits that the executor with this number gets, of `count` executors.

    The default is the daemon without executors, which gets all of it.
    """

    number: int = 0
    count: int = 1
    is_executor: bool = False

    def of(self, total: int, *, least: int = 0) -> int:
        """Return this executor's part of a number, but at least `least`.

        Apart from that minimum, the parts of all executors add up to the number.
        """
        return max(least, total // self.count + (self.number < total % self.count))


WHOLE = Part()
NO_DEMAND = PoolDemand(base=0, unused=0, most=0)


def derive_limits(settings: Settings, part: Part = WHOLE) -> DaemonLimits:
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
            max_upload_pause=timedelta(hours=limits.silent_upload_h),
            lines=LineCaps(line_bytes=caps.body_bytes, payload=payload, lines=limits.batch_lines),
        ),
        library_bytes=limits.library_mb_per_uid * MIB,
        pool=_derive_pool_limits(settings, part),
    )


def _derive_pool_limits(settings: Settings, part: Part) -> PoolLimits:
    pool = settings.pool
    whole = PoolLimits(
        refill_concurrency=pool.refill_concurrency,
        idle_memory_bytes=pool.ceiling_idle_memory_mb * MIB,
        max_idle_s=pool.max_idle_age_s,
        processors=len(os.sched_getaffinity(0)),
    )
    if not part.is_executor:
        return replace(whole, max_containers=MAX_OWN_CONTAINERS) if settings.executors else whole
    return replace(
        whole,
        max_containers=part.of(whole.max_containers - MAX_OWN_CONTAINERS, least=1),
        start_concurrency=part.of(whole.start_concurrency, least=1),
        refill_concurrency=part.of(whole.refill_concurrency, least=1),
        idle_memory_bytes=part.of(whole.idle_memory_bytes),
        processors=part.of(whole.processors, least=1),
    )


def build_pool_demand(settings: Settings, *, quick: bool, part: Part = WHOLE) -> PoolDemand:
    """Return the settings for the pool's demand.

    The pool keeps no idle containers if it is disabled, or in a daemon with executors.

    Args:
        settings: the settings of the daemon.
        quick: see `ports.engine.Capabilities`.
        part: the part of the limits that this process gets.
    """
    pool = settings.pool
    if not pool.enabled or (settings.executors and not part.is_executor):
        return NO_DEMAND
    # The default isn't a limit: each executor keeps a container for its next attempt.
    default = part.of(2 if quick else 4, least=1)
    base = default if pool.default_target is None else part.of(pool.default_target)
    most = part.of(MAX_IDLE_PER_KEY, least=1)
    return PoolDemand(base=base, unused=part.of(pool.unused_target), most=most)
