"""What the end of a program does to memory that forks share."""

from __future__ import annotations

import subprocess
import sys

PAGES = 4000

_PROGRAM = f"""
import gc, os, sys
from types import ModuleType
from assayd.guest.child import end_program, find_newest_module

library = ModuleType("a_large_library")
library.held = [bytes(4000) for _ in range({PAGES})]
sys.modules["a_large_library"] = library
newest = find_newest_module()
gc.freeze()
pid = os.fork()
if pid == 0:
    end_program(3, newest=newest, libraries=())
_, status, used = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_minflt)
"""


def test_end_of_a_program_leaves_the_pages_of_loaded_modules_alone() -> None:
    # A new interpreter, because a fork of pytest's own process touches pages that depend on earlier tests.
    ran = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    status, written_pages = (int(word) for word in ran.stdout.split())

    assert status == 3
    assert written_pages < PAGES / 2, ran.stdout
