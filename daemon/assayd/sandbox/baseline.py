"""Measures an image's container before any submitted code runs: its memory, and the output of a program."""

from __future__ import annotations

import asyncio
from pathlib import Path

from assayd.aio import run_cleanup
from assayd.clock import UlidGenerator
from assayd.errors import ConfigError, EngineError
from assayd.package_data import get_shared_data_path
from assayd.ports.engine import Engine, ImageFacts
from assayd.sandbox.container import REMOVE_TIMEOUT_S, ContainerOrigin, build_container_spec, open_container
from assayd.sandbox.pool_decisions import PoolKey

_MIB = 2**20
_SPARE_MB = 16
"""Megabytes for the runner's later needs: the frames of an attempt, a child before its first line."""
_MIN_MB = 32
_CONTAINER_BYTES = 1024 * _MIB


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
        memory_bytes=_CONTAINER_BYTES,
        pids=16,
        cpus=1.0,
        work_bytes=8 * _MIB,
        work_files=64,
        open_files=256,
        network="blocked",
        seccomp=get_shared_data_path("seccomp", "container.json").read_text(encoding="utf-8"),
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
    return max(_MIN_MB, -(-second.ready.memory_bytes // _MIB) + _SPARE_MB)


_TIMEOUT_S = 120.0
_MAX_BYTES = 16 * _MIB
_MAX_SAID_CHARS = 300
_SETTLE_TRIES, _SETTLE_S = 100, 0.05


async def run_and_read_output(engine: Engine, archive: Path) -> bytes:
    """Run the program of an image archive in a fully isolated container, and return its output.

    The image and the container are removed afterwards.

    Raises: EngineError, with the code ``image.program_failed`` if the program fails, prints too much or
    times out.
    """
    facts = await engine.load_image(archive)
    try:
        key = PoolKey(
            image=facts.name,
            image_digest=facts.digest,
            memory_bytes=512 * _MIB,
            pids=8,
            cpus=1.0,
            work_bytes=8 * _MIB,
            work_files=64,
            open_files=256,
            network="blocked",
            seccomp=get_shared_data_path("seccomp", "container.json").read_text(encoding="utf-8"),
        )
        return await _run_and_read(engine, key)
    finally:
        await run_cleanup(engine.remove_image(facts.name), timeout_s=REMOVE_TIMEOUT_S)


async def _run_and_read(engine: Engine, key: PoolKey) -> bytes:
    spec = build_container_spec(
        key, ContainerOrigin(daemon_id=UlidGenerator().new(), generation="build"), UlidGenerator().new()
    )
    ref = await engine.create(spec)
    try:
        await engine.verify(ref, spec)
        duplex = await engine.start(ref)
        printed = bytearray()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                while len(printed) <= _MAX_BYTES and (block := await duplex.read()):
                    printed += block
        except TimeoutError as late:
            raise EngineError("image.program_failed", f"it took more than {_TIMEOUT_S:.0f} seconds") from late
        said = duplex.diagnostics.decode("utf-8", "replace").strip()[-_MAX_SAID_CHARS:]
        await duplex.close()
        for _ in range(_SETTLE_TRIES):
            facts = await engine.facts(ref)
            if not facts.running:
                break
            await asyncio.sleep(_SETTLE_S)
    finally:
        await run_cleanup(engine.remove(ref), timeout_s=REMOVE_TIMEOUT_S)
    if facts.running or facts.exit_code != 0 or len(printed) > _MAX_BYTES:
        raise EngineError("image.program_failed", f"it ended with {facts.exit_code}; its output: {said!a}")
    return bytes(printed)
