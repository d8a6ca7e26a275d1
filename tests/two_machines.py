"""A cluster on two machines, the second of which is cut off, loses its power, and has its clock moved.

    make two-machines PROGRAMS=200

As root. The second machine is emulated, with a separate kernel and clock. Prints the outcome of each fault.
Exit code 1: a program has no verdict, a wrong one or two, or other than one bundle.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from support.cluster.two_machines import as_json, face_all, two_machines


def main() -> int:
    parser = argparse.ArgumentParser(description="Run programs on two machines while faults come.")
    parser.add_argument("--programs", type=int, default=200, help="how many over all faults (default: 200)")
    chosen = parser.parse_args()
    faced = []
    with (
        tempfile.TemporaryDirectory(prefix="machines-", dir="/tmp") as work,
        two_machines(Path(work)) as both,
    ):
        for each in face_all(both, chosen.programs):
            print(as_json([each]), flush=True)
            faced.append(each)
    return 0 if all(each.holds() for each in faced) else 1


if __name__ == "__main__":
    sys.exit(main())
