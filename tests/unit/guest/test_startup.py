"""The runner's one-time set-up: fork handlers that its children don't run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import assayd

_FORKED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from assayd.guest.startup import stop_deferring_handlers, defer_fork_handlers
defer_fork_handlers()
import random, threading
stop_deferring_handlers(guest_forks=sys.argv[2] == "forks")
lock, state = threading._active_limbo_lock, random.getstate()
if (pid := os.fork()) == 0:
    os._exit(2 * (threading._active_limbo_lock is not lock) + (random.getstate() != state))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), os.register_at_fork.__module__)
"""


@pytest.mark.parametrize(("guest", "done"), [("forks not", "1 posix"), ("forks", "3 posix")])
def test_child_draws_numbers_of_its_own_and_puts_threads_right_only_where_guest_code_forks(
    guest: str, done: str
) -> None:
    package = Path(assayd.__file__).parents[1]

    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _FORKED, str(package), guest],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert told.stdout.strip() == done
