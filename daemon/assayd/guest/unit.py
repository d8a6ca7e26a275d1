"""One unit: assign it to a preforked child, watch it, stop it at its limits, and collect the evidence.

A unit has ended when its child has been reaped and all of its other processes are dead. The runner never
waits for the end of a pipe.

The runner forks a spare child while the runner is idle; the child confines itself, and then waits for its
unit. No preforked child exists while a unit runs, because the unit's code could kill the child.
"""

from __future__ import annotations

import os
import time
from itertools import chain

from . import child
from .processes import UnitClock, read_first_task
from .streams import UnitStreams
from .substitutes import Value, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .apart import SolutionForkServer, SolutionPipes, TestSession
    from .frames import Header
    from .processes import Cgroup, Counters, DescendantProcesses, ReapedProcess, RunQueueDelayMeter
    from .programs import UnitProgram
    from .relay import GuestRelay
    from .requests import GuestLimits, UnitRequest
    from .streams import Send
    from .substitutes import Selector
    from .workdir import WorkDirectory

    OnDead = Callable[[bool], str | None]
    """Called after a unit's end with its success; returns the fault of its leftovers, or None."""

_MAX_STDERR_BYTES = 64 * 1024
_MAX_STDERR_TAIL_CHARS = 500


class Pipes(Value):
    """The runner's ends of a child's pipes. After the child is confined, they are all non-blocking."""

    stdin: int
    stdout: int
    stderr: int
    report: int
    asking: int = -1
    answering: int = -1


class PreforkedChild:
    """A preforked child that waits for its unit, until `assign` or `discard` is called.

    `before` holds the memory counts from before the fork, so that a kill for lack of memory is detected
    even while files are staged.
    """

    def __init__(
        self, confinement: child.Confinement, programs: Mapping[str, UnitProgram], work: int, before: Counters
    ) -> None:
        self.before = before
        paired = any(getattr(program, "PAIRED", False) for program in programs.values())
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(7 if paired else 5)]
        stdin, stdout, stderr, report, order, *two = pipes
        more = {"answering": two[0][1], "asking": two[1][0]} if paired else {}
        self.pipes = Pipes(stdin=stdin[1], stdout=stdout[0], stderr=stderr[0], report=report[0], **more)
        self._ours = (stdin[1], stdout[0], stderr[0], report[0], *more.values())
        for pipe in self._ours:
            os.set_blocking(pipe, pipe == report[0])  # it blocks until the child is confined
        self._order = order[1]
        theirs = child.Descriptors(
            stdin=stdin[0], stdout=stdout[1], stderr=stderr[1], report=report[1], order=order[0], work=work,
            paired=(two[0][0], two[1][1]) if paired else None,
        )  # fmt: skip
        try:
            self.pid = os.fork()
        except OSError:
            for pipe in chain(*pipes):
                os.close(pipe)
            raise
        if self.pid == 0:
            child.become(confinement, programs, theirs)
        theirs_here = (stdin[0], stdout[1], stderr[1], report[1], order[0])
        for pipe in (*theirs_here, *((two[0][0], two[1][1]) if paired else ())):
            os.close(pipe)

    def is_confined(self) -> bool:
        """Wait until the child is confined. Return True, or False if it ended early.

        Call this method first, and only once.
        """
        said = os.read(self.pipes.report, len(child.CONFINED))
        os.set_blocking(self.pipes.report, False)
        return said == child.CONFINED

    def read_stderr_tail(self) -> str:
        """Return the end of a dead child's standard error, or an empty string if it wrote nothing."""
        with suppress(BlockingIOError):
            return (
                os.read(self.pipes.stderr, _MAX_STDERR_BYTES)
                .decode("utf-8", "replace")
                .strip()[-_MAX_STDERR_TAIL_CHARS:]
            )
        return ""

    def assign(self, program: str, arguments: bytes, *, has_input: bool) -> None:
        """Send the unit program and arguments to the child. If the child is dead, do nothing."""
        rest = memoryview(child.encode_request(program, arguments, has_input=has_input))
        with suppress(BrokenPipeError):
            while rest:
                rest = rest[os.write(self._order, rest) :]
        os.close(self._order)

    def discard(self) -> None:
        """Close the child's pipes, so that the child exits. The caller must reap the child."""
        for pipe in (*self._ours, self._order):
            os.close(pipe)


_LINGER_S = 0.1
"""Seconds in which descendants can exit after the child, without their run-queue delay.

Later, they count as left behind.
"""
_MAX_LINGER_S = 1.0
_REPORTED_DELAY_STEP_S = 0.05
"""Growth of the run-queue delay, in seconds, after which the clock is reported to the daemon.

Otherwise, it is reported once a second.
"""
_REPORT_INTERVAL_S = 1.0


class RunnerContext(Value):
    """The parts of the runner that a unit uses.

    `shared` lists the descriptors of other directories that a child can write to, which are emptied between
    units. `waiting` measures the runner's own run-queue delay between units. `environment` is the
    environment of the image's programs.
    """

    selector: Selector
    processes: DescendantProcesses
    waiting: RunQueueDelayMeter
    cgroup: Cgroup
    work: WorkDirectory
    shared: tuple[int, ...]
    environment: Mapping[str, str]
    send: Send


def _ignore_data(_: bool) -> None:
    return None


class UnitInput(Value):
    """The input of a unit. `relay` is set under an allowlist. `on_dead` is called at the unit's end."""

    arguments: bytes
    stdin: bytes
    relay: GuestRelay | None
    on_dead: OnDead = _ignore_data


class SolutionPair(Value):
    """A solution's process that is connected to a tests' process, with the fork server that started it."""

    nursery: SolutionForkServer
    pipes: SolutionPipes
    separation: type[TestSession]


class RunningUnit:
    """A running unit. Call `check` after every round of the selector until the unit has ended."""

    def __init__(
        self,
        request: UnitRequest,
        limits: GuestLimits,
        around: RunnerContext,
        forked: PreforkedChild,
        given: UnitInput,
        pair: SolutionPair | None = None,
    ) -> None:
        self.request = request
        self._on_dead, self._relay = given.on_dead, given.relay
        self._around = around
        pipes = forked.pipes if pair is None else _merge_solution_pipes(forked.pipes, pair.pipes)
        self._streams = UnitStreams(request.index, limits, pipes, given.stdin, around.selector, around.send)
        self._end = "exited"
        self._child: ReapedProcess | None = None
        self._cpu_s = 0.0
        self._wall_s = 0.0
        self._before = forked.before
        self._pid = forked.pid
        self._started = time.monotonic()
        self._moved = self._streams.moved
        self._clock = UnitClock(
            request.deadline_s, around.processes, self._runner_wait_s, tasks=read_first_task(forked.pid)
        )
        self._separation: TestSession | None = None
        if pair is not None:
            self._separation = pair.separation(
                pair.nursery,
                pair.pipes,
                forked.pipes,
                around.selector,
                request.call_s,
                self._effective_time_s,
            )
            self._streams.watch_events(pair.pipes.report, limits.unit_result_bytes)
        self._told_s, self._tell_at = 0.0, self._started + _REPORT_INTERVAL_S
        self._ended_at = 0.0
        self._starved_by_then_s = 0.0
        forked.assign(request.program, given.arguments, has_input=bool(given.stdin))
        around.send(
            {"type": "started", "unit": request.index, "starved_s": around.waiting.measure_delay_s()}, b""
        )
        if self._relay is not None:
            self._relay.begin(request.index)

    def max_wait_s(self) -> float:
        """Return the maximum time in seconds for which the selector can wait."""
        until = self._clock.next_check_at()
        if self._child is not None:
            until = min(until, self._linger_deadline_at())
        if self._separation is not None and (call_s := self._separation.call_timeout_at()) is not None:
            until = min(until, self._started + call_s + self._clock.starved_s)
        return max(until - time.monotonic(), 0.0)

    def check(self) -> bool:
        """Check the child and its limits. Return True once the unit has ended and `unit_end` was sent."""
        for ended in self._around.processes.reap():
            self._record_reaped(ended)
        if self._separation is not None:
            self._separation.enforce_timeout()
        if not self._has_ended():
            return False
        self._finish()
        return True

    def _has_ended(self) -> bool:
        late = self._clock.is_over()
        self._report_clock()
        if self._child is not None:
            gone = self._separation is not None or self._around.processes.has_no_processes()
            return gone or late or self._streams.exceeded is not None or self._is_grace_period_over()
        if late:
            self._end = "deadline"
        return late or self._streams.exceeded is not None

    def _runner_wait_s(self) -> float:
        """Return the runner's run-queue delay in seconds, if the unit exchanged data with the runner.

        Return 0 otherwise, because the unit then didn't wait for the runner.
        """
        waited_s = self._around.waiting.measure_delay_s()
        moved, self._moved = self._streams.moved - self._moved, self._streams.moved
        return waited_s if moved else 0.0

    def _report_clock(self) -> None:
        """Report run-queue delays, so that the attempt's deadline pauses together with the unit's."""
        clock, now = self._clock, time.monotonic()
        if clock.starved_s - self._told_s < _REPORTED_DELAY_STEP_S and now < self._tell_at:
            return
        self._told_s, self._tell_at = clock.starved_s, now + _REPORT_INTERVAL_S
        spent = {"wall_s": now - self._started, "cpu_s": clock.used_s, "starved_s": clock.starved_s}
        self._around.send({"type": "clock", "unit": self.request.index, **spent}, b"")

    def _effective_time_s(self) -> float:
        """Return the seconds since the start, minus the run-queue delay."""
        return time.monotonic() - self._started - self._clock.starved_s

    def _linger_deadline_at(self) -> float:
        starved_s = self._clock.starved_s - self._starved_by_then_s
        return self._ended_at + min(_LINGER_S + starved_s, _MAX_LINGER_S)

    def _is_grace_period_over(self) -> bool:
        """Return whether the grace period of the child's remaining processes is over."""
        if time.monotonic() < self._linger_deadline_at():
            return False
        self._clock.take_reading()
        return time.monotonic() >= self._linger_deadline_at()

    def _record_reaped(self, ended: ReapedProcess) -> None:
        self._cpu_s += ended.cpu_s
        # Once it is reaped, its process id may be reused for one of its children.
        if ended.pid == self._pid and self._child is None:
            self._child = ended
            self._ended_at = time.monotonic()
            self._wall_s = self._ended_at - self._started
            self._starved_by_then_s = self._clock.starved_s

    def _finish(self) -> None:
        """Kill the remaining processes, drain the pipes, and send `unit_end`."""
        left_processes = self._count_leftover_processes()
        for ended in self._around.processes.kill_all():
            self._record_reaped(ended)
        self._streams.finish()
        if self._separation is not None:
            self._separation.close()
        if self._relay is not None:
            self._relay.end()
        if self._end == "exited" and self._streams.exceeded is not None:
            self._end = self._streams.exceeded
        evidence = self._build_unit_end(left_processes)
        self._around.waiting.measure_delay_s()
        problem = self._on_dead(self._end == "exited" and evidence["wait_status"] == 0)
        evidence["malformed"] = evidence["malformed"] or problem
        self._around.send(evidence, b"")

    def _count_leftover_processes(self) -> int:
        """Return the number of processes that outlived the child.

        The result is at least 1 if any exists, because counting can miss processes that fork a successor and
        exit immediately.
        """
        processes = self._around.processes
        if self._separation is not None:
            return 0  # the solution waits for the next call, and neither of the two can start a process
        return 0 if self._child is None or processes.has_no_processes() else max(processes.count(), 1)

    def _build_unit_end(self, left_processes: int) -> Header:
        assert self._child is not None  # noqa: S101 - all children are reaped, this one too
        counters, use, reports = (
            self._around.cgroup.read_counters(),
            self._around.work.use(),
            self._streams.reports,
        )
        return {
            "type": "unit_end",
            "unit": self.request.index,
            "wait_status": self._child.status,
            "end": self._end,
            "wall_s": self._wall_s,
            "cpu_s": max(self._cpu_s, self._clock.used_s),
            "starved_s": self._clock.starved_s,
            "peak_memory_bytes": self._child.peak_memory_bytes,
            "oom_kills": counters.oom_kills - self._before.oom_kills,
            "pids_refused": counters.pids_refused - self._before.pids_refused,
            "stdout_bytes": self._streams.stdout.total_bytes,
            "stderr_bytes": self._streams.stderr.total_bytes,
            "results": reports.results,
            "malformed": reports.malformed,
            "events_dropped": reports.events_dropped,
            "left_processes": left_processes,
            "work_bytes": use.used_bytes,
            "work_files": use.used_files,
            "work_full": use.full,
        }


def _merge_solution_pipes(tests: Pipes, solution: SolutionPipes) -> Pipes:
    """Return a unit's pipes, with the solution's output instead of the tests' output.

    The result record contains the tests' output.
    """
    os.close(tests.stdout)
    os.close(tests.stderr)
    return Pipes(stdin=tests.stdin, stdout=solution.stdout, stderr=solution.stderr, report=tests.report)
