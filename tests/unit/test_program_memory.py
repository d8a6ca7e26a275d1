"""Memory that threads have used for large objects is returned to the system."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import threading
from pathlib import Path
from assayd.program import configure_allocator, release_free_memory

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

def use():
    texts = [bytes([number % 256]) * 2000 for number in range(20_000)]
    kept.append(bytes([1]) * 2000)  # lies above the others: a heap shrinks from its end alone
    met.wait()
    seen.wait()
    texts.clear()

configure_allocator()
before = resident()
kept = []
met, seen = threading.Barrier(5), threading.Barrier(5)
threads = [threading.Thread(target=use) for _ in range(4)]
for thread in threads:
    thread.start()
met.wait()
held = resident()
seen.wait()
for thread in threads:
    thread.join()
release_free_memory()
print(held - before, resident() - before)
"""


def test_memory_that_threads_have_used_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    held, left = map(int, done.stdout.split())
    assert held > 150_000
    assert left < 20_000
