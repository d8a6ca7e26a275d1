"""The child that is forked before its unit arrives."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from assayd.guest import child as child_module
from support.guests.guest_runner import GuestRunner, call_of

PID = "import os\ndef extract(): return os.getpid()"


def waiting(runner: GuestRunner) -> list[int]:
    """Return the runner's children."""
    pid = runner.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def answered(runner: GuestRunner) -> None:
    """Wait until the runner has processed all frames."""
    runner.run("levitate", {})


def test_child_is_forked_at_the_beginning_and_becomes_the_first_unit(observing: GuestRunner) -> None:
    answered(observing)

    (child,) = waiting(observing)
    assert observing.call(PID).value == child


def test_next_child_is_forked_only_where_another_unit_will_follow(observing: GuestRunner) -> None:
    first = observing.call(PID, more=True).value
    answered(observing)
    (child,) = waiting(observing)

    assert observing.call(PID).value == child != first
    answered(observing)
    assert waiting(observing) == []


def test_child_that_no_unit_came_for_is_gone_before_outputs_are_taken(begun: GuestRunner) -> None:
    begun.call("def extract(): return 1", more=True)

    begun.finish()

    assert waiting(begun) == []


def test_child_that_died_waiting_is_a_unit_that_died_and_the_next_one_runs(observing: GuestRunner) -> None:
    answered(observing)
    (child,) = waiting(observing)
    order = hex(child_module.ORDER)
    while Path(f"/proc/{child}/syscall").read_text().split()[1:2] != [order]:  # until it reads that, confined
        os.sched_yield()
    os.kill(child, signal.SIGKILL)

    assert observing.call(PID).end["wait_status"] == signal.SIGKILL
    assert observing.call("def extract(): return 1").value == 1


def test_child_that_cannot_be_confined_ends_the_runner_and_is_no_end_of_a_unit(runner: GuestRunner) -> None:
    # Its own limit leaves it no file to open, which it must before its filter is loaded.
    runner.begin(open_files=3)
    runner.start("call", call_of("def extract(): return 1"))
    header, _ = runner.until("unconfined")[-1]

    assert str(header["message"]).startswith("a child could not be confined")
    with pytest.raises(EOFError):
        runner.receive()


def test_arguments_longer_than_a_pipe_holds_reach_the_child(begun: GuestRunner) -> None:
    assert begun.call("def extract(text): return len(text)", "x" * 3_000_000).value == 3_000_000


FILTERS = """
def extract():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Seccomp_filters:"))
"""


def filters(pid: int) -> int:
    """Return the number of a process's system call filters."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("Seccomp_filters:"))


def test_runner_has_loaded_the_filter_that_its_children_inherit(observing: GuestRunner) -> None:
    here = filters(os.getpid())

    in_child = observing.call(FILTERS).value

    assert (filters(observing.process.pid), in_child) == (here + 1, here + 2)


def test_runner_with_a_relay_leaves_both_filters_to_its_children(runner: GuestRunner) -> None:
    here = filters(os.getpid())
    runner.begin(network="allowlist", mode="observe")

    in_child = runner.call(FILTERS).value

    assert (filters(runner.process.pid), in_child) == (here, here + 2)


def test_no_unit_collects_what_the_runner_has_made_between_units(observing: GuestRunner) -> None:
    counted = "import gc\ndef extract():\n    return gc.get_stats()[0]['collections']"
    seen = {observing.call(counted).value for _ in range(60)}
    assert len(seen) == 1
