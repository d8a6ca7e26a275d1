"""Compares SandboxFusion's client at `assay compat` with this project's client, and with plain Python.

usage: PYTHONPATH=daemon .run/cache/agents/bin/python bench/compat_load.py URL [OPTION…]

Runs 384 small programs from 64 threads, in turns: by sandbox_fusion.run_concurrent at URL, by assayd_client
at the daemon's socket (ASSAY_SOCKET), and as processes of this machine's Python. `--yardstick` names another
command, e.g. "docker run --rm -i python:3.11 python -". The interpreter above is that of the tests of agents,
which has sandbox-fusion. `--service` is the process of `assay compat`, whose processor time is printed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from sandbox_fusion import RunCodeRequest, run_code, run_concurrent, set_sandbox_endpoint

from assayd_client import PlainClient

THREADS = 64


def by_sandbox_fusion(codes: list[str]) -> list[str]:
    """Run the programs by the peer's client."""
    asked = [[RunCodeRequest(code=code, language="python")] for code in codes]
    return [each.run_result.stdout for each in run_concurrent(run_code, args=asked, concurrency=THREADS)]


def by_assayd_client(codes: list[str]) -> list[str]:
    """Run the programs by this project's client."""

    def run(code: str) -> str:
        with PlainClient() as client:
            submission = {"kind": "script", "policy": "script", "payload": {"code": code}}
            return str(client.submit(submission, wait_s=600)["execution"]["stdout"])

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(run, codes))


def by_command(command: list[str], codes: list[str]) -> list[str]:
    """Run the programs as processes that read them from standard input."""

    def run(code: str) -> str:
        return subprocess.run(command, input=code, capture_output=True, text=True, check=True).stdout

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(run, codes))


def processor_s(pid: int | None) -> float:
    """Return the processor time that a process has used."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Measure in turns; print the median and the ratio to this project's client."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", type=int, default=384)
    parser.add_argument("--service", type=int)
    parser.add_argument("--yardstick", default=f"{sys.executable} -")
    asked = parser.parse_args()
    set_sandbox_endpoint(asked.url)
    codes = [f"print({number} * 2)" for number in range(asked.programs)]
    wanted = [f"{number * 2}\n" for number in range(asked.programs)]
    ways: dict[str, Callable[[list[str]], list[str]]] = {
        "sandbox-fusion": by_sandbox_fusion,
        "assayd_client": by_assayd_client,
        "yardstick": partial(by_command, shlex.split(asked.yardstick)),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    used = 0.0
    for number in range(asked.rounds + 1):  # the first round fills the pool and is not counted
        for name, way in ways.items():
            before, started = processor_s(asked.service), time.monotonic()
            if way(codes) != wanted:
                raise SystemExit(f"{name}: a program printed something else")
            if number:
                took[name].append(time.monotonic() - started)
                used += processor_s(asked.service) - before
            print(f"round {number}: {name} {time.monotonic() - started:.2f} s", flush=True)
    ours = statistics.median(took["assayd_client"])
    for name, seconds in took.items():
        median = statistics.median(seconds)
        rate = asked.programs / median
        print(f"{name:<15} {median:6.2f} s  {rate:6.1f}/s  {median / ours:5.2f} of assayd_client")
    ratios = [a / b for a, b in zip(took["sandbox-fusion"], took["assayd_client"], strict=True)]
    print(f"ratio of each round: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    if asked.service:
        print(
            f"processor time of the service: {used / asked.rounds / asked.programs * 1000:.2f} ms per program"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
