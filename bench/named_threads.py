"""Runs a program whose threads bear their names in /proc, so that their processor time can be told apart.

python -m bench.named_threads MODULE
"""

from __future__ import annotations

import runpy
import sys
import threading
from pathlib import Path

_run = threading.Thread.run


def _run_named(thread: threading.Thread) -> None:
    Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(thread.name[:15])
    _run(thread)


if __name__ == "__main__":
    threading.Thread.run = _run_named  # type: ignore[method-assign]
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
