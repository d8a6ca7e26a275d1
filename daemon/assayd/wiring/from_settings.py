"""What the settings mean to each part, in the part's own words."""

from __future__ import annotations

import grp
import os

from assayd.analysis.analyst import AnalysisLimits
from assayd.api import Access, ApiLimits
from assayd.attempts.retention import Keep
from assayd.attempts.scheduler import QueueLimits
from assayd.batches import BatchLimits, LineCaps
from assayd.documents import PayloadCaps
from assayd.model.run import Limits
from assayd.ports.egress import EgressLimits
from assayd.sandbox.pool.autoscale import Demand
from assayd.sandbox.pool.decide import PoolLimits
from assayd.settings import Settings

MOST_IDLE_PER_KEY = 16
MIB = 2**20


def demand_of(settings: Settings) -> Demand:
    """Return how many containers are kept ready."""
    pool = settings.pool
    if not pool.enabled:
        return Demand(base=0, unused=0, most=0)
    return Demand(base=pool.default_target, unused=pool.unused_target, most=MOST_IDLE_PER_KEY)


def queue_limits_of(settings: Settings) -> QueueLimits:
    """Return how much is accepted."""
    limits = settings.limits
    return QueueLimits(
        length=limits.queue_length, bytes=limits.queue_mb * MIB, per_uid=limits.attempts_per_uid
    )


def min_free_of(settings: Settings) -> int:
    """Return the room below which nothing is accepted."""
    return settings.limits.min_free_mb * MIB


def keep_of(settings: Settings) -> Keep:
    """Return what is kept of finished attempts."""
    keep = settings.retention
    return Keep(days=keep.days, attempts=keep.attempts, disk_bytes=keep.bundles_mb * MIB)


def pool_limits_of(settings: Settings) -> PoolLimits:
    """Return what idle containers may take."""
    return PoolLimits(
        refill_concurrency=settings.pool.refill_concurrency,
        idle_memory_bytes=settings.pool.ceiling_idle_memory_mb * MIB,
        max_idle_s=settings.pool.max_idle_age_s,
    )


def egress_limits_of(settings: Settings) -> EgressLimits:
    """Return what the connections of an attempt may use."""
    egress = settings.egress
    return EgressLimits(
        streams=egress.streams,
        connections=egress.connections,
        bytes_up=egress.bytes_up,
        bytes_down=egress.bytes_down,
        open_at_once=egress.open_at_once,
    )


def analysis_limits_of(settings: Settings) -> AnalysisLimits:
    """Return what a static check may use."""
    analysis = settings.analysis
    return AnalysisLimits(
        workers=analysis.workers, memory_bytes=analysis.memory_mb * MIB, cpu_s=analysis.cpu_s
    )


def caps_of(settings: Settings) -> Limits:
    """Return the daemon's caps, in the form in which an attempt's limits carry them."""
    caps = settings.caps
    return Limits(
        timeout_s=0,
        unit_timeout_s=0,
        memory_bytes=0,
        max_processes=0,
        output_kept_bytes=caps.output_kept_bytes,
        output_read_bytes=caps.output_read_bytes,
        unit_result_bytes=caps.unit_result_bytes,
        attempt_result_bytes=caps.attempt_result_bytes,
        outputs_files=caps.outputs_files,
        outputs_bytes=caps.outputs_bytes,
        findings=caps.findings,
        retry_context_bytes=caps.retry_context_bytes,
    )


def api_limits_of(settings: Settings) -> ApiLimits:
    """Return how much a request may bring."""
    return ApiLimits(
        body_bytes=settings.caps.body_bytes,
        payload=payload_caps_of(settings),
        silence_s=settings.limits.silence_s,
    )


def payload_caps_of(settings: Settings) -> PayloadCaps:
    """Return how large the parts of a payload may be."""
    caps = settings.caps
    return PayloadCaps(
        source_bytes=caps.source_bytes,
        inputs_bytes=caps.inputs_bytes,
        sample_paths=caps.sample_paths,
        steps=caps.steps,
    )


def access_of(settings: Settings) -> Access:
    """Return who may connect, and who sees everything."""
    group = settings.access.operators_group
    return Access(
        uids=frozenset(settings.access.uids),
        gids=frozenset(settings.access.gids),
        operators_gid=grp.getgrnam(group).gr_gid if group else None,
        own_uid=os.geteuid(),
    )


def batch_limits_of(settings: Settings) -> BatchLimits:
    """Return what batches may be."""
    limits = settings.limits
    return BatchLimits(
        per_uid=limits.batches_per_uid,
        concurrency=limits.batch_concurrency,
        lines=LineCaps(
            line_bytes=settings.caps.body_bytes, payload=payload_caps_of(settings), lines=limits.batch_lines
        ),
    )
