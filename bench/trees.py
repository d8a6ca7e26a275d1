"""Applies an extractor to a tree of empty files, and measures rate, processor time and memory.

usage: deploy/dev/oci.sh run .venv/bin/python -m bench.trees [--paths N] [--socket PATH]

Without a socket, the daemon that ASSAY_SOCKET names is asked. The tree is made and removed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from assayd_client import PlainClient

CODE = Path(__file__).resolve().parents[1] / "examples/extractor/quarter.py"
NAME = "bench-trees"


def make_tree(folder: Path, paths: int) -> None:
    for number in range(paths):
        place = folder / f"CLIENT-{number % 26:02}" / f"{2010 + number % 10}" / f"Q{number % 4 + 1}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"report{number}.csv").touch()


def approve(client: PlainClient) -> None:
    payload = {"code": CODE.read_text(), "sample_paths": ["/data/CLIENT-1/2024/Q1/report.csv"]}
    attempt = client.submit({"kind": "extractor", "payload": payload}, wait_s=120)
    client.approve(attempt["id"], NAME)


def daemon_of(path: Path) -> int:
    """Return the process that listens on a socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", peer)[0])


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--paths", type=int, default=20_000)
    parser.add_argument("--socket", type=Path, default=os.environ.get("ASSAY_SOCKET"))
    asked = parser.parse_args()
    pid = daemon_of(asked.socket)
    with tempfile.TemporaryDirectory(prefix="bench-trees-") as place:
        tree, out = Path(place, "tree"), Path(place, "out.jsonl")
        make_tree(tree, asked.paths)
        with PlainClient(str(asked.socket)) as client:
            approve(client)
        command = [Path(sys.executable).with_name("assay"), "--socket", asked.socket, "extractor", "apply"]
        began, used_s = time.perf_counter(), processor_s(pid)
        subprocess.run([*command, NAME, tree, "--jsonl", out], check=True, stdout=subprocess.DEVNULL)
        took_s = time.perf_counter() - began
        with out.open("rb") as lines:
            written = sum("result" in json.loads(line) for line in lines)
    client_use = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        "paths": written,
        "took_s": round(took_s, 2),
        "paths_per_s": round(written / took_s),
        "client_cpu_s": round(client_use.ru_utime + client_use.ru_stime, 2),
        "client_peak_mb": round(client_use.ru_maxrss / 1024, 1),
        "daemon_cpu_s": round(processor_s(pid) - used_s, 2),
        "daemon_peak_mb": round(peak_mb(pid), 1),
    }
    print(json.dumps(figures))
    return 0 if written == asked.paths else 1


if __name__ == "__main__":
    sys.exit(main())
