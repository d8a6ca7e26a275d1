"""One attempt in the runner: the permissions and files of the attempt, and the next unit's input."""

from __future__ import annotations

import errno

from . import child
from .frames import split_into_bodies
from .processes import UnconfinedChildError
from .requests import InvalidRequest, get, parse_path_header
from .unit import PreforkedChild, RunningUnit, SolutionPair, UnitInput
from .workdir import RESULT, AttemptDatabase, clear_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .apart import SolutionForkServer, SolutionPipes
    from .frames import Header
    from .outputs import OutputChunk
    from .programs import UnitProgram
    from .relay import GuestRelay
    from .requests import BeginFrame, UnitRequest
    from .unit import RunnerContext

_UNKNOWN_PROGRAM_STATUS = 127 << 8
"""Wait status that a shell would give for a program that it does not know."""
_DISK_FULL_STATUS = 1 << 8
_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
_DATABASE_PROGRAM = "sql"


class GuestSession:
    """The state of an attempt, with a method for each type of frame between `begin` and `finish`."""

    def __init__(
        self,
        attempt: BeginFrame,
        programs: Mapping[str, UnitProgram],
        around: RunnerContext,
        relay: GuestRelay | None,
    ) -> None:
        self._attempt = attempt
        self._programs = programs
        self._around = around
        self.relay = relay
        proxies = relay.open(attempt.relay) if relay is not None and attempt.relay is not None else {}
        self._confinement = child.prepare_confinement(attempt, around.work.path, around.environment, proxies)
        self._files: dict[str, bytearray] = {}
        self._unstaged: set[str] = set()
        self._stdin = bytearray()
        self._arguments = bytearray()
        self._used = False
        self._outputs = (
            _load_output_collection() if attempt.collect or _DATABASE_PROGRAM in attempt.programs else None
        )
        self._database = AttemptDatabase(attempt.limits.outputs_bytes)
        self._next_child: PreforkedChild | None = None
        paired = any(getattr(program, "PAIRED", False) for program in programs.values())
        self._apart = _load_isolation() if paired else None
        self._nursery: SolutionForkServer | None = None
        self._solution: SolutionPipes | None = None
        self._common = bytearray()

    def prefork_child(self) -> None:
        """Fork the next unit's child, unless it exists. No other child may be running.

        Raises: OSError, if the child or the next solution can't be forked.
        """
        if self._next_child is None:
            self._around.work.restore_access()
            before, work = self._around.cgroup.read_counters(), self._around.work.descriptor
            self._next_child = PreforkedChild(self._confinement, self._programs, work, before)
        if self._nursery is not None and self._solution is None:
            self._solution = self._nursery.start()

    def add_solution(self, body: bytes) -> None:
        """Start the solution's fork server, before any data of the tests arrives.

        Raises: InvalidRequest, if no solution is expected; OSError, if it can't be
        started.
        """
        if self._apart is None or self._nursery is not None or self._used or self._common or self._arguments:
            raise InvalidRequest("a solution was not expected")
        self._nursery = self._apart.SolutionForkServer(self._confinement, body, self._around.work.descriptor)
        self._around.processes.exclude(self._nursery.pid)
        self.prefork_child()

    def add_common(self, body: bytes) -> None:
        """Append a part of the data that all tests share."""
        self._common += body

    def add_file(self, header: Header, body: bytes) -> None:
        """Store a new file, or append the next part of a file.

        Raises: InvalidRequest, if the header is invalid, or if the file to append to doesn't exist.
        """
        path = parse_path_header(header)
        if not get(header, "append", bool):
            self._files[path] = bytearray()
        elif path not in self._files:
            raise InvalidRequest(f"nothing to append to: {path!a}")
        self._files[path] += body
        self._unstaged.add(path)

    def add_database(self, body: bytes) -> None:
        """Append a part of the database that `sql` units use."""
        self._database.add(body)

    def add_stdin(self, body: bytes) -> None:
        """Append a part of the next unit's standard input."""
        self._stdin += body

    def add_arguments(self, body: bytes) -> None:
        """Append a part of the next unit's arguments."""
        self._arguments += body

    def start(self, request: UnitRequest, body: bytes) -> RunningUnit | None:
        """Start a unit. Return None if its program is unknown or its files don't fit on the disk.

        Raises: InvalidRequest, if tests have no solution; OSError; UnconfinedChildError, if the child
        couldn't be confined.
        """
        self._arguments += body
        if self._common:
            self._arguments[:] = b'{"common":%s,"own":%s}' % (self._common, self._arguments)
        arguments, stdin = bytes(self._arguments), bytes(self._stdin)
        self._arguments.clear()
        self._stdin.clear()
        if request.program not in self._programs:
            self._around.send(
                _build_failed_start_header(request.index, _UNKNOWN_PROGRAM_STATUS, "unknown program"), b""
            )
            return None
        self.prefork_child()
        given = UnitInput(arguments=arguments, stdin=stdin, relay=self.relay)
        try:
            self._prepare_work_directory(request.fresh_cwd)
            if request.program == _DATABASE_PROGRAM:
                self._database.create_file(self._around.work)
                given = UnitInput(
                    arguments=arguments, stdin=stdin, relay=self.relay, on_dead=self._take_database
                )
        except OSError as problem:
            if problem.errno not in _FULL_ERRNOS:
                raise
            # The guest made the leftovers of earlier units.
            self._discard_child()
            full = _build_failed_start_header(request.index, _DISK_FULL_STATUS, "no room for its files")
            self._around.send({**full, "work_full": True}, b"")
            return None
        return RunningUnit(
            request, self._attempt.limits, self._around, self._take_child(), given, self._take_solution_pair()
        )

    def _take_solution_pair(self) -> SolutionPair | None:
        if self._apart is None:
            return None
        if self._nursery is None or self._solution is None:
            raise InvalidRequest("tests have come without a solution")
        pair = SolutionPair(nursery=self._nursery, pipes=self._solution, separation=self._apart.TestSession)
        self._solution = None
        return pair

    def _take_child(self) -> PreforkedChild:
        """Return the preforked child. Raises: UnconfinedChildError, which submitted code never causes.

        If the kernel killed the child for lack of memory while files were staged, the unit is reported as out
        of memory.
        """
        assert self._next_child is not None  # noqa: S101 - it was forked before the files were staged
        forked, self._next_child = self._next_child, None
        if (
            not forked.is_confined()
            and self._around.cgroup.read_counters().oom_kills == forked.before.oom_kills
        ):
            raise UnconfinedChildError(f"a child could not be confined: {forked.read_stderr_tail()}")
        return forked

    def _discard_child(self) -> None:
        if self._next_child is not None:
            self._next_child.discard()
            self._next_child = None
            for _ in self._around.processes.kill_all():
                pass

    def _take_database(self, ended_well: bool) -> str | None:
        return self._database.remove_file(self._around.work, keep=ended_well)

    def send_outputs(self) -> list[str]:
        """Send the declared outputs, and return the reasons for omitted outputs.

        If no outputs are declared, return an empty list.
        """
        self._discard_child()
        database = self._database.changed_content
        if self._outputs is None:
            return []
        limits = self._attempt.limits
        for number, part in enumerate(() if database is None else split_into_bodies(database)):
            self._send_output_piece(
                self._outputs.OutputChunk(path=RESULT, content=part, append=number > 0, truncated=False)
            )
        collector = self._outputs.OutputCollector(
            self._around.work.descriptor,
            self._attempt.collect,
            max_files=limits.outputs_files - (database is not None),
            max_bytes=limits.outputs_bytes - len(database or b""),
            known=self._files if self._attempt.changed_only else {},
        )
        for piece in collector.collect():
            self._send_output_piece(piece)
        dropped: list[str] = collector.dropped
        return dropped

    def _send_output_piece(self, piece: OutputChunk) -> None:
        header: Header = {"type": "collected", "path": piece.path}
        header |= {"append": piece.append, "truncated": piece.truncated}
        self._around.send(header, piece.content)

    def _prepare_work_directory(self, fresh: bool) -> None:
        """Prepare a unit's work directory. If `fresh` is true, first remove everything in it."""
        if self._used:
            for directory in self._around.shared:
                clear_directory(directory)
        if fresh and self._used:
            self._around.work.remove_content()
            self._unstaged = set(self._files)
        if fresh or not self._used:
            for folder in self._attempt.folders:
                self._around.work.create_directory(folder)
        for path in sorted(self._unstaged):
            self._around.work.write_file(path, self._files[path])
        self._unstaged.clear()
        self._used = True


def _load_isolation() -> Any:
    """Import the module that keeps solutions apart from tests, before the runner's modules are hidden."""
    from . import apart

    return apart


def _load_output_collection() -> Any:
    """Import the module that collects outputs, and its dependency `re`, before modules are hidden."""
    from . import outputs

    return outputs


def _build_failed_start_header(unit: int, status: int, reason: str) -> Header:
    """Return the `unit_end` header of a unit that could not be started."""
    counted = dict.fromkeys(
        (
            "wall_s", "cpu_s", "starved_s", "peak_memory_bytes", "oom_kills", "pids_refused", "stdout_bytes",
            "stderr_bytes", "results", "events_dropped", "left_processes", "work_bytes", "work_files",
        ),
        0,
    )  # fmt: skip
    ended = {"type": "unit_end", "unit": unit, "wait_status": status, "end": "exited"}
    return {**ended, **counted, "malformed": reason, "work_full": False}
