"""Measures what `assay` itself costs: processor time of its process, whatever the daemon takes.

`python -m bench.client SOCKET [RUNS]` measures against a daemon that runs already.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ASSAY = (sys.executable, "-c", "import sys; from assayd_client.cli import main; sys.exit(main())")
BARE = (sys.executable, "-c", "pass")
SAMPLE_PATH = "/data/CLIENT-ABC/2024/Q1/report.csv"
RUNS = 15


def client_costs(socket: Path, source: str, runs: int = RUNS) -> dict[str, float]:
    """Return the median processor time of some commands in milliseconds, with that of a bare Python beside.

    Args:
        socket: where a daemon listens.
        source: an extractor that is validated.
        runs: how often each is started.
    """
    with tempfile.TemporaryDirectory(prefix="assayd-bench-") as folder:
        file = Path(folder, "extractor.py")
        file.write_text(source, encoding="utf-8")
        place = ("--socket", str(socket))
        lines: Mapping[str, Sequence[str]] = {
            "python_cpu_ms": BARE,
            "cli_help_cpu_ms": (*ASSAY, "--help"),
            "cli_list_cpu_ms": (*ASSAY, *place, "list"),
            "cli_validate_cpu_ms": (
                *ASSAY, *place, "validate", "extractor", str(file), "--sample-path", SAMPLE_PATH,
            ),
        }  # fmt: skip
        return {name: _median_ms(line, runs) for name, line in lines.items()}


def _median_ms(line: Sequence[str], runs: int) -> float:
    _cpu_s(line)  # the first one may compile modules, or read them from the disk
    return round(statistics.median(_cpu_s(line) for _ in range(runs)) * 1000, 1)


def _cpu_s(line: Sequence[str]) -> float:
    """Return the processor time of one command, the kernel's in its name included."""
    # An installed client finds its modules compiled.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    said = process.stderr.read() if process.stderr else b""
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(line)} ended with {process.returncode}: {said.decode()}")
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    from bench.run import SOURCE

    print(json.dumps(client_costs(Path(sys.argv[1]), SOURCE, *map(int, sys.argv[2:])), indent=2))
