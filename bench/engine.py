"""What the engine costs without the daemon: the baseline, and the most that it can do."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import closing
from pathlib import Path

import docker

import assayd.guest
from assayd.clock import UlidGenerator
from assayd.engines.docker import DockerEngine
from assayd.errors import EngineError
from assayd.package_data import get_shared_data_path
from assayd.ports.engine import ContainerSpec
from assayd.sandbox.channel import RunnerChannel, StreamEndedError, wait_until_ready
from assayd.sandbox.container import ContainerOrigin, build_container_spec
from assayd.sandbox.pool_decisions import PoolKey
from assayd.sandbox.sandbox import ImageCache

MIB = 2**20
PRELOAD = ("json", "re", "pathlib")


def docker_run(image: str, source: str, path: str, count: int) -> list[float]:
    """Time `docker run --rm --network=none` through the SDK: same image, same code, one path."""
    program = f"{source}\nimport json\nprint(json.dumps(extract({path!r})))\n"
    took = []
    with closing(docker.from_env()) as client:
        for _ in range(count):
            began = time.perf_counter()
            client.containers.run(
                image,
                ["-c", program],
                entrypoint=["/usr/bin/python3.11", "-I", "-S"],
                network_mode="none",
                remove=True,
            )
            took.append(time.perf_counter() - began)
    return took


class Ceiling:
    """Containers per second: created, started until the runner is ready, killed, removed."""

    def __init__(self, engine: DockerEngine, key: PoolKey) -> None:
        self._engine = engine
        self._key = key
        self._ids = UlidGenerator()
        self._origin = ContainerOrigin(daemon_id="bench-" + self._ids.new(), generation="bench")

    async def measure(self, *, concurrency: int, seconds: float) -> float:
        """Return containers per second at this concurrency."""
        end = time.perf_counter() + seconds
        began = time.perf_counter()
        counts = await asyncio.gather(*(self._worker(end) for _ in range(concurrency)))
        return sum(counts) / (time.perf_counter() - began)

    async def _worker(self, end: float) -> int:
        count = 0
        while time.perf_counter() < end:
            spec: ContainerSpec = build_container_spec(self._key, self._origin, self._ids.new())
            ref = await self._engine.create(spec)
            try:
                channel = RunnerChannel(await self._engine.start(ref))
                await wait_until_ready(channel, PRELOAD)
                await channel.close()
                count += 1
            except (EngineError, StreamEndedError) as problem:
                # The daemon tries another one; so it costs time here as well, and counts for nothing.
                print(f"a container of the bare engine was lost: {problem!r}", file=sys.stderr)
            finally:
                await self._engine.remove(ref)
        return count


async def ceiling(concurrencies: tuple[int, ...], seconds: float) -> dict[int, float]:
    """Measure the engine's own rate at several concurrencies."""
    engine = DockerEngine(base_url=None)
    try:
        image = await ImageCache(engine, Path(assayd.guest.__file__).parent).get("python")
        key = PoolKey(
            image=image.name,
            image_digest=image.digest,
            memory_bytes=132 * MIB,
            pids=2,
            cpus=1.0,
            work_bytes=32 * MIB,
            work_files=4096,
            open_files=256,
            network="blocked",
            seccomp=get_shared_data_path("seccomp", "container.json").read_text(encoding="utf-8"),
            preload=PRELOAD,
        )
        bare = Ceiling(engine, key)
        return {n: await bare.measure(concurrency=n, seconds=seconds) for n in concurrencies}
    finally:
        await engine.close()
