"""Measures the memory of an image's container before any submitted code runs."""

from __future__ import annotations

from assayd.errors import ConfigError
from assayd.ids import UlidGenerator
from assayd.package_data import share
from assayd.ports.engine import Engine, ImageFacts
from assayd.sandbox.container import ContainerOrigin, open_container
from assayd.sandbox.pool.decide import PoolKey

_MIB = 2**20
_SPARE_MB = 16
"""Megabytes for the runner's later needs: the frames of an attempt, a child before its first line."""
_LEAST_MB = 32
_ROOM_BYTES = 1024 * _MIB


async def measure_baseline_mb(engine: Engine, facts: ImageFacts, preload: tuple[str, ...]) -> int:
    """Return the baseline of an image in megabytes.

    Two containers are started, but only the second one is measured, because the kernel charges file pages
    that both read to the first one and can drop these pages at any time.

    Raises: EngineError; ConfigError ``image.preload`` for a module that can't be imported.
    """
    origin = ContainerOrigin(daemon_id=UlidGenerator().new(), generation="build")
    key = PoolKey(
        image=facts.name,
        image_digest=facts.digest,
        memory_bytes=_ROOM_BYTES,
        pids=16,
        cpus=1.0,
        work_bytes=8 * _MIB,
        work_files=64,
        open_files=256,
        network="blocked",
        seccomp=share("seccomp", "container.json").read_text(encoding="utf-8"),
        preload=preload,
    )
    first = await open_container(engine, key, origin, UlidGenerator().new(), ahead=True)
    try:
        second = await open_container(engine, key, origin, UlidGenerator().new(), ahead=True)
        await second.remove()
    finally:
        await first.remove()
    if second.ready.not_preloaded:
        named = ", ".join(second.ready.not_preloaded)
        name = facts.name.partition(":")[0]
        remedy = "build it without preload, and import the module in an attempt to see the error"
        message = f"{name} can't import {named}, which its recipe preloads; {remedy}"
        raise ConfigError("image.preload", message)
    return max(_LEAST_MB, -(-second.ready.memory_bytes // _MIB) + _SPARE_MB)
