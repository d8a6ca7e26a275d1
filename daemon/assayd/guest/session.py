"""One attempt inside the runner: what `begin` allowed, the files to lay, what the next unit is to get."""

from __future__ import annotations

from collections.abc import Mapping

from . import child
from .frames import Header
from .outputs import Collector
from .programs import Program
from .requests import Attempt, Fault, UnitRequest, get, read_path
from .unit import Surroundings, Unit
from .workdir import clear

_NO_SUCH_PROGRAM = 127 << 8
"""Wait status that a shell would give for a program that it does not know."""


class Session:
    """Takes the frames between `begin` and `finish`."""

    def __init__(self, attempt: Attempt, programs: Mapping[str, Program], around: Surroundings) -> None:
        self._attempt = attempt
        self._programs = programs
        self._around = around
        environment = around.relay.open(attempt.relay) if attempt.relay is not None else {}
        self._confinement = child.confine(attempt, around.work.path, environment)
        self._files: dict[str, bytearray] = {}
        self._unlaid: set[str] = set()
        self._stdin = bytearray()
        self._arguments = bytearray()
        self._used = False

    def add_file(self, header: Header, body: bytes) -> None:
        """Take a file or a further part of one. Raises: Fault."""
        path = read_path(header)
        if not get(header, "append", bool):
            self._files[path] = bytearray()
        elif path not in self._files:
            raise Fault(f"nothing to append to: {path!a}")
        self._files[path] += body
        self._unlaid.add(path)

    def add_stdin(self, body: bytes) -> None:
        """Take a part of the next unit's standard input."""
        self._stdin += body

    def add_arguments(self, body: bytes) -> None:
        """Take a part of the next unit's arguments."""
        self._arguments += body

    def start(self, request: UnitRequest, body: bytes) -> Unit | None:
        """Start a unit; None when it has ended already. Raises: Fault, OSError."""
        self._arguments += body
        arguments, stdin = bytes(self._arguments), bytes(self._stdin)
        self._arguments.clear()
        self._stdin.clear()
        program = self._programs.get(request.program)
        if program is None:
            self._around.send(_never_ran(request.index), b"")
            return None
        self._prepare_work(request.fresh_cwd)
        plan = child.Plan(confinement=self._confinement, program=program, arguments=arguments)
        return Unit(request, self._attempt.limits, self._around, plan, stdin)

    def send_outputs(self) -> list[str]:
        """Send the declared outputs; give the reasons why others stay behind."""
        limits = self._attempt.limits
        collector = Collector(
            self._around.work.descriptor,
            self._attempt.collect,
            max_files=limits.outputs_files,
            max_bytes=limits.outputs_bytes,
        )
        for piece in collector.collect():
            header: Header = {"type": "collected", "path": piece.path}
            header |= {"append": piece.append, "truncated": piece.truncated}
            self._around.send(header, piece.content)
        return collector.dropped

    def _prepare_work(self, fresh: bool) -> None:
        """Give the unit an empty directory with the attempt's files, or what the last one left."""
        if self._used:
            for directory in self._around.shared:
                clear(directory)
        if fresh and self._used:
            self._around.work.empty()
            self._unlaid = set(self._files)
        for path in sorted(self._unlaid):
            self._around.work.lay(path, self._files[path])
        self._unlaid.clear()
        self._used = True


def _never_ran(unit: int) -> Header:
    """Give the end of a unit whose program this guest does not have."""
    counted = dict.fromkeys(
        (
            "wall_s", "cpu_s", "peak_memory_bytes", "oom_kills", "pids_refused", "stdout_bytes",
            "stderr_bytes", "results", "events_dropped", "left_processes", "work_bytes", "work_files",
        ),
        0,
    )  # fmt: skip
    ended = {"type": "unit_end", "unit": unit, "wait_status": _NO_SUCH_PROGRAM, "end": "exited"}
    return {**ended, **counted, "malformed": "unknown program", "work_full": False}
