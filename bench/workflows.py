"""How much longer a workflow takes than its nodes as single attempts, at the same parallelism.

    python -m bench.workflows [--nodes N] [--parallel N] [--rounds N]

Starts a private daemon on the OCI engine, and ends it. A workflow of so many chains runs, then its code as
single attempts, as many at once; in turn, so that both meet the same load.
Prints the medians of both times and their ratio (goal: at most 1.3).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from assayd_client import AsyncClient  # noqa: E402
from support.daemons.daemon_process import DaemonProcess  # noqa: E402

CODE = "n: int\nresult: int = n + 1\n"


def document(nodes: int, parallel: int, first: int) -> str:
    """Return a workflow of chains; its numbers begin at `first`, so that no two runs are alike."""
    entries = []
    for number in range(nodes):
        before = number - parallel
        entries.append(
            {
                "id": f"n{number}",
                "code": CODE,
                "inputs": {"n": f"n{before}.result" if before >= 0 else first + number},
            }
        )
    outputs = {f"o{number}": f"n{number}.result" for number in range(max(0, nodes - parallel), nodes)}
    return json.dumps({"timeout_s": 3600, "nodes": entries, "outputs": outputs})


async def time_workflow(client: AsyncClient, text: str) -> float:
    began = time.perf_counter()
    begun = await client.start_workflow(text)
    while (ended := await client.workflow(begun.id, wait_s=600)).verdict is None:
        pass
    if ended.verdict != "validated":
        raise RuntimeError(f"the workflow ended as {ended.verdict}: {ended.detail}")
    return time.perf_counter() - began


async def time_singles(client: AsyncClient, nodes: int, parallel: int, first: int) -> float:
    turns = asyncio.Semaphore(parallel)

    async def one(number: int) -> None:
        payload = {"code": CODE, "inputs": {"n": first + number}}
        async with turns:
            attempt = await client.submit({"kind": "code", "payload": payload}, wait_s=600)
        if attempt.verdict != "validated":
            raise RuntimeError(f"an attempt ended as {attempt.verdict}")

    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number in range(nodes):
            tasks.create_task(one(number))
    return time.perf_counter() - began


async def measure(socket: Path, nodes: int, parallel: int, rounds: int) -> tuple[float, float]:
    """Return the medians of the workflow and of the single attempts, in seconds."""
    whole, single = [], []
    async with AsyncClient(socket) as client:
        await time_singles(client, parallel, parallel, 10**9)  # warm containers for both
        for turn in range(rounds):
            first = turn * 10 * nodes
            whole.append(await time_workflow(client, document(nodes, parallel, first)))
            single.append(await time_singles(client, nodes, parallel, first + 5 * nodes))
    return median(whole), median(single)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--parallel", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    os.chdir(ROOT)
    daemon = DaemonProcess("oci", settings={"LOG__LEVEL": "info"})
    try:
        daemon.start()
        whole, single = asyncio.run(measure(daemon.socket, asked.nodes, asked.parallel, asked.rounds))
    finally:
        daemon.dispose()
    print(f"{asked.nodes} nodes, {asked.parallel} in parallel, {asked.rounds} rounds")
    print(f"workflow {whole:.2f} s, single attempts {single:.2f} s, ratio {whole / single:.2f}")


if __name__ == "__main__":
    main()
