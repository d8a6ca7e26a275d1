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


_PREPARED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
os.environ.clear()
os.environ.update(PATH="/bin", ASSAYD_CONSTANTS="KEPT", KEPT="1", OTHER="2")
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
from assayd.guest import runner, startup
from assayd.guest.builtin_names import build_guest_builtins
runner.prepare()
assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
assert dict(os.environ) == {"KEPT": "1"}, os.environ
os.environ["OTHER"] = "2"
assert startup.extract_environment() == {"PATH": "/bin", "KEPT": "1"}
first, second = (build_guest_builtins("safe", len, {}) for _ in range(2))
assert first.keys() == second.keys() and "open" not in first
first["added"] = 1
assert "added" not in second
"""


def test_template_prepares_signals_environment_and_built_in_names_for_its_clones() -> None:
    package = Path(assayd.__file__).parents[1]
    subprocess.run([sys.executable, "-I", "-S", "-c", _PREPARED, str(package)], check=True, timeout=60)
