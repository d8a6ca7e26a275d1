"""Runs the program of an image without a runner, and returns its output."""

from __future__ import annotations

import asyncio
from pathlib import Path

from assayd.aio import finish
from assayd.errors import EngineError
from assayd.ids import UlidGenerator
from assayd.package_data import share
from assayd.ports.engine import Engine
from assayd.sandbox.container import REMOVE_TIMEOUT_S, ContainerOrigin, container_spec
from assayd.sandbox.pool.decide import PoolKey

_MIB = 2**20
_TIMEOUT_S = 120.0
_MOST_BYTES = 16 * _MIB
_SAID = 300
_SETTLE_TRIES, _SETTLE_S = 100, 0.05


async def printed_by(engine: Engine, archive: Path) -> bytes:
    """Load an image, run its program in a fully isolated container, and remove both; return the output.

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
            seccomp=share("seccomp", "container.json").read_text(encoding="utf-8"),
        )
        return await _run_and_read(engine, key)
    finally:
        await finish(engine.remove_image(facts.name), timeout_s=REMOVE_TIMEOUT_S)


async def _run_and_read(engine: Engine, key: PoolKey) -> bytes:
    spec = container_spec(
        key, ContainerOrigin(daemon_id=UlidGenerator().new(), generation="build"), UlidGenerator().new()
    )
    ref = await engine.create(spec)
    try:
        await engine.verify(ref, spec)
        duplex = await engine.start(ref)
        printed = bytearray()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                while len(printed) <= _MOST_BYTES and (block := await duplex.read()):
                    printed += block
        except TimeoutError as late:
            raise EngineError("image.program_failed", f"it took more than {_TIMEOUT_S:.0f} seconds") from late
        said = duplex.diagnostics.decode("utf-8", "replace").strip()[-_SAID:]
        await duplex.close()
        for _ in range(_SETTLE_TRIES):
            facts = await engine.facts(ref)
            if not facts.running:
                break
            await asyncio.sleep(_SETTLE_S)
    finally:
        await finish(engine.remove(ref), timeout_s=REMOVE_TIMEOUT_S)
    if facts.running or facts.exit_code != 0 or len(printed) > _MOST_BYTES:
        raise EngineError("image.program_failed", f"it ended with {facts.exit_code}; its output: {said!a}")
    return bytes(printed)
