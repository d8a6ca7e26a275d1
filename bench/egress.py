"""How fast 10 MB go through the relay, down and up: `python -m bench.egress`, with an engine and the images.

The host is a process of its own on this machine's loopback; the clock is the guest's.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import structlog

import assayd.guest
from assayd.aio import Deadline
from assayd.clock import SystemClock, UlidGenerator
from assayd.egress import Relay
from assayd.engines.docker import DockerEngine
from assayd.metrics import Metrics
from assayd.model.policy import ImportMode, ImportPolicy, NetworkMode, NetworkPolicy
from assayd.model.run import Limits, Program, RunSpec, Unit
from assayd.package_data import get_shared_data_path
from assayd.ports.egress import EgressLimits
from assayd.sandbox.container import ContainerOrigin
from assayd.sandbox.pool import ContainerPool
from assayd.sandbox.pool_decisions import PoolDemand, PoolLimits
from assayd.sandbox.sandbox import ImageCache, Sandbox

MIB = 2**20
SIZE, TIMES = 10_000_000, 5
HOST = "bench.test"
GUEST = f"""
import http.client, os, time

def timed(port, method, body):
    proxy = os.environ["HTTP_PROXY"].removeprefix("http://")
    connection = http.client.HTTPConnection(proxy, timeout=30)
    began = time.perf_counter()
    url = f"http://{HOST}:{{port}}/"
    connection.request(method, url, body, {{"Host": f"{HOST}:{{port}}"}})
    answer = connection.getresponse()
    assert answer.status == 200, answer.reason
    got = len(answer.read())
    took = time.perf_counter() - began
    assert got == ({SIZE} if method == "GET" else 2), got
    return took

def measure(port):
    return [[timed(port, "GET", None), timed(port, "PUT", bytes({SIZE}))] for _ in range({TIMES})]
"""


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Give 10 MB, or take as much."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if head.startswith(b"get"):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % SIZE + bytes(SIZE))
    else:
        await reader.readexactly(SIZE)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    await writer.drain()
    writer.close()


def host(told: Connection) -> None:
    """Serve until the process is ended."""

    async def forever() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(forever())


async def measure(port: int) -> list[list[float]]:
    """Return what each transfer took, down and up, in seconds."""
    clock = SystemClock()
    relay = Relay(
        EgressLimits(bytes_up=TIMES * 2 * SIZE, bytes_down=TIMES * 2 * SIZE),
        clock,
        Metrics(),
        look_up=lambda host, port: ("127.0.0.1",),
        public=lambda address: address == "127.0.0.1",
    )
    engine = DockerEngine(base_url=os.environ.get("DOCKER_HOST"))
    pool = ContainerPool(
        engine=engine,
        origin=ContainerOrigin(daemon_id="bench-" + UlidGenerator().new(), generation="bench"),
        clock=clock,
        ids=UlidGenerator(),
        limits=PoolLimits(),
        demand=PoolDemand(base=0, most=0, unused=0),
    )
    sandbox = Sandbox(
        pool=pool,
        images=ImageCache(engine, Path(assayd.guest.__file__).parent),
        clock=clock,
        seccomp=get_shared_data_path("seccomp", "container.json").read_text(),
        egress=relay,
    )
    text = {"source": GUEST, "filename": "bench.py", "function": "measure", "builtins": "full"}
    unit = Unit(
        name="bench",
        program=Program.CALL,
        arguments={**text, "args": [port], "kwargs": {}},
        deadline_s=60,
    )
    spec = RunSpec(
        image="python",
        limits=Limits(timeout_s=60, unit_timeout_s=60, memory_bytes=128 * MIB, max_processes=2),
        units=(unit,),
        network=NetworkPolicy(
            mode=NetworkMode.ALLOWLIST, hosts=frozenset({HOST}), ports=frozenset({port}), connect_timeout_s=5
        ),
        imports=ImportPolicy(mode=ImportMode.OBSERVE),
    )
    try:
        async with pool.running(), sandbox.lease(spec) as lease:
            result = await sandbox.run(lease, Deadline(60))
    finally:
        await engine.close()
    took: list[list[float]] = json.loads(result.units[0].results[0])["value"]
    return took


def main() -> int:
    """Measure and print megabytes per second."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=host, args=(theirs,), daemon=True)
    process.start()
    took = asyncio.run(measure(ours.recv()))
    process.terminate()
    for name, column in (("down", 0), ("up", 1)):
        rates = sorted(SIZE / 1e6 / row[column] for row in took)
        print(f"{name}: {rates[TIMES // 2]:.0f} MB/s (median of {TIMES}; {rates[0]:.0f} to {rates[-1]:.0f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
