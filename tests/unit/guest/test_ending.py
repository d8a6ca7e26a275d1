"""What the end of a program does to memory that forks share."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from types import ModuleType

import pytest

from assayd.guest.ending import end_program, newest_module

PAGES = 4000


def test_end_of_a_program_leaves_the_pages_of_loaded_modules_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("a_large_library")
    library.__dict__["held"] = [bytes(4000) for _ in range(PAGES)]
    monkeypatch.setitem(sys.modules, "a_large_library", library)
    # A fork does not take the threads of pytest along, but their count.
    monkeypatch.setattr("assayd.guest.ending._count_threads", lambda: 0)
    newest = newest_module()

    pid = os.fork()
    if pid == 0:
        atexit._clear()
        gc.freeze()
        end_program(3, newest=newest, libraries=())
    _, status, used = os.wait4(pid, 0)

    assert os.waitstatus_to_exitcode(status) == 3
    assert used.ru_minflt < PAGES / 2
