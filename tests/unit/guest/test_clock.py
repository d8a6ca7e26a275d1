"""What a unit's time is spent on, measured by scripted samples of scripted tasks every 50 ms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from assayd.guest.processes import LOOK_S, MOST, KernelTask, UnitClock

LIMIT_S = 1.0


@dataclass
class Machine:
    """One processor that divides its time among tasks; a task waits for what it doesn't get."""

    now_s: float = 0.0
    used_s: float = 0.0
    ran: dict[int, float] = field(default_factory=dict)
    waited: dict[int, float] = field(default_factory=dict)
    runnable: set[int] = field(default_factory=set)

    def clock(self) -> float:
        """Return the time."""
        return self.now_s

    def pass_time(self, time_s: float, **shares: tuple[float, float]) -> None:
        """Advance the time, in which tasks with names like ``t1`` run and wait for parts of it."""
        self.now_s += time_s
        for name, (ran, waited) in shares.items():
            tid = int(name.removeprefix("t"))
            self.used_s += ran * time_s
            self.ran[tid] = self.ran.get(tid, 0.0) + ran * time_s
            self.waited[tid] = self.waited.get(tid, 0.0) + waited * time_s


class Below:
    """The clock's source of figures."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def used_s(self) -> float:
        """Return the time used by all tasks."""
        return self._machine.used_s

    def tasks(self) -> Iterator[KernelTask]:
        """Yield the machine's tasks."""
        machine = self._machine
        for tid, ran_s in machine.ran.items():
            yield KernelTask(
                pid=1,
                tid=tid,
                ran_s=ran_s,
                waited_s=machine.waited[tid],
                slices=round(ran_s * 1000),
                is_runnable=lambda tid=tid: tid in machine.runnable,  # type: ignore[misc]
            )


@pytest.fixture
def machine() -> Machine:
    """Return a machine with the unit's first process."""
    return Machine(ran={1: 0.0}, waited={1: 0.0})


def run(machine: Machine, most_s: float = 10.0, **shares: tuple[float, float]) -> UnitClock:
    """Let a unit continue in the same way until its time is up."""
    clock = UnitClock(LIMIT_S, Below(machine), now=machine.clock)
    while not clock.is_over():
        assert machine.now_s < most_s, "it does not end"
        machine.pass_time(min(LOOK_S, max(clock.next_check_at() - machine.now_s, 0.001)), **shares)
    return clock


def test_sleeper_ends_at_its_limit(machine: Machine) -> None:
    run(machine, t1=(0.0, 0.0))
    assert machine.now_s == pytest.approx(LIMIT_S, abs=0.01)


def test_spinner_with_a_processor_of_its_own_ends_at_its_limit(machine: Machine) -> None:
    run(machine, t1=(1.0, 0.0))
    assert machine.now_s == pytest.approx(LIMIT_S, abs=0.01)


def test_spinner_that_gets_half_a_processor_ends_when_it_has_used_its_limit(machine: Machine) -> None:
    clock = run(machine, t1=(0.5, 0.5))
    assert machine.now_s == pytest.approx(2 * LIMIT_S, abs=0.1)
    assert (clock.used_s, clock.starved_s) == (pytest.approx(1.0, abs=0.05), pytest.approx(1.0, abs=0.05))


def test_starved_unit_ends_at_three_times_its_limit(machine: Machine) -> None:
    run(machine, t1=(0.1, 0.9))
    assert machine.now_s == pytest.approx(MOST * LIMIT_S, abs=0.01)


def test_two_spinners_on_two_processors_end_when_they_have_used_the_limit(machine: Machine) -> None:
    machine.ran[2] = machine.waited[2] = 0.0
    run(machine, t1=(1.0, 0.0), t2=(1.0, 0.0))
    assert machine.now_s == pytest.approx(LIMIT_S / 2, abs=0.1)


def test_waiting_for_each_other_on_one_processor_gains_nothing(machine: Machine) -> None:
    machine.ran |= {2: 0.0, 3: 0.0, 4: 0.0}
    machine.waited |= {2: 0.0, 3: 0.0, 4: 0.0}
    clock = run(machine, t1=(0.25, 0.75), t2=(0.25, 0.75), t3=(0.25, 0.75), t4=(0.25, 0.75))
    assert machine.now_s == pytest.approx(LIMIT_S, abs=0.1)
    assert clock.starved_s == pytest.approx(0.0, abs=0.05)


def test_waiting_that_is_not_over_counts_already(machine: Machine) -> None:
    machine.runnable.add(1)
    clock = UnitClock(LIMIT_S, Below(machine), now=machine.clock)
    for _ in range(4):
        machine.pass_time(LOOK_S)
        clock.take_reading()
    assert clock.starved_s == pytest.approx(4 * LOOK_S)


def test_waiting_that_counted_already_counts_once(machine: Machine) -> None:
    machine.runnable.add(1)
    clock = UnitClock(LIMIT_S, Below(machine), now=machine.clock)
    for _ in range(4):
        machine.pass_time(LOOK_S)
        clock.take_reading()
    machine.waited[1] += 4 * LOOK_S
    machine.pass_time(LOOK_S, t1=(0.5, 0.0))
    clock.take_reading()
    assert clock.starved_s == pytest.approx(4 * LOOK_S)


def test_task_that_is_new_and_could_run_speaks_for_those_that_came_and_went(machine: Machine) -> None:
    clock = UnitClock(LIMIT_S, Below(machine), now=machine.clock)
    for tid in range(2, 12):
        machine.ran = {1: 0.0, tid: 0.0}
        machine.waited[tid] = 0.0
        machine.runnable = {tid}
        machine.used_s += 0.01
        machine.now_s += LOOK_S
        clock.take_reading()
    assert clock.starved_s == pytest.approx(10 * LOOK_S - 0.1)


def test_task_that_is_new_and_sleeps_says_nothing_of_waiting(machine: Machine) -> None:
    clock = UnitClock(LIMIT_S, Below(machine), now=machine.clock)
    for tid in range(2, 12):
        machine.ran = {1: 0.0, tid: 0.0}
        machine.waited[tid] = 0.0
        machine.now_s += LOOK_S
        clock.take_reading()
    assert clock.starved_s == 0.0


def test_unit_that_the_runner_keeps_waiting_has_that_time_to_come() -> None:
    """Regression: on a busy machine, much output ended as a timeout while the runner waited to run."""
    machine, kept = Machine(), [0.8 * LOOK_S]
    clock = UnitClock(LIMIT_S, Below(machine), lambda: kept[0], machine.clock)
    while not clock.is_over():
        machine.pass_time(LOOK_S, t1=(0.1, 0.0))
    assert machine.now_s == pytest.approx(MOST * LIMIT_S, abs=2 * LOOK_S)
    assert clock.starved_s == pytest.approx(0.8 * machine.now_s, rel=0.1)


def test_what_the_runner_waits_while_the_unit_computes_is_not_left_out() -> None:
    machine = Machine()
    clock = UnitClock(LIMIT_S, Below(machine), lambda: LOOK_S, machine.clock)
    while not clock.is_over():
        machine.pass_time(LOOK_S, t1=(1.0, 0.0))
    assert (clock.used_s, clock.starved_s) == (pytest.approx(LIMIT_S), pytest.approx(0.0, abs=0.1))
