"""Bring a profile's limits within bounds, and say what was changed.

Profiles are clamped; requests are refused (`override`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from assayd.model.policy import Bounds, Clamp, ExecutionPolicy, Range
from assayd.policies.canonical import MEGABYTE, with_digest


def clamp(policy: ExecutionPolicy, bounds: Bounds) -> ExecutionPolicy:
    """Return the policy with its limits within bounds, each change recorded, and its digest.

    A unit never gets more time than the attempt that it is part of.
    """
    asked = policy.resources
    timeout_s = bounds.timeout_s.clamp(asked.timeout_s)
    given = replace(
        asked,
        timeout_s=timeout_s,
        unit_timeout_s=min(bounds.unit_timeout_s.clamp(asked.unit_timeout_s), timeout_s),
        memory_bytes=int(bounds.memory_mb.clamp(asked.memory_bytes / MEGABYTE) * MEGABYTE),
        max_processes=int(bounds.max_processes.clamp(asked.max_processes)),
    )
    pairs = (
        ("timeout_s", asked.timeout_s, given.timeout_s),
        ("unit_timeout_s", asked.unit_timeout_s, given.unit_timeout_s),
        ("memory_mb", asked.memory_bytes / MEGABYTE, given.memory_bytes / MEGABYTE),
        ("max_processes", asked.max_processes, given.max_processes),
    )
    return with_digest(replace(policy, resources=given, clamped=tuple(_changed(pairs))))


def narrow(bounds: Bounds, widest: Bounds) -> Bounds:
    """Return the bounds, cut to what the operator's widest ones allow."""
    return Bounds(
        timeout_s=_cut(bounds.timeout_s, widest.timeout_s),
        unit_timeout_s=_cut(bounds.unit_timeout_s, widest.unit_timeout_s),
        memory_mb=_cut(bounds.memory_mb, widest.memory_mb),
        max_processes=_cut(bounds.max_processes, widest.max_processes),
    )


def _cut(inner: Range, outer: Range) -> Range:
    return Range(least=outer.clamp(inner.least), most=outer.clamp(inner.most))


def _changed(pairs: tuple[tuple[str, float, float], ...]) -> Iterator[Clamp]:
    for field, requested, effective in pairs:
        if requested != effective:
            yield Clamp(field=f"resources.{field}", requested=requested, effective=effective)
