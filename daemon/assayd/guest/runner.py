"""The guest runner: the container's PID 1, with a single thread and a single selector loop.

The runner exchanges frames with the daemon (docs/guest-protocol.md) and runs one unit at a time. It has no
signal handlers, isn't dumpable and holds no secrets. Therefore, nothing in the container can stop the
runner or read its memory, and reading its memory would reveal nothing. It exits at the end of its standard
input.
"""

from __future__ import annotations

import os
import sys
import time

from . import kernel
from .frames import PROTOCOL, FrameDecoder, FrameError, encode_frame
from .processes import (
    Cgroup,
    DescendantProcesses,
    ProcessesRemainError,
    RunQueueDelayMeter,
    UnconfinedChildError,
)
from .programs import PROGRAMS, load_programs
from .requests import InvalidRequest, get, get_strings, parse_unit_request, read_attempt
from .startup import (
    create_text_streams,
    extract_environment,
    freeze_memory,
    hide_own_modules,
    open_shared_memory,
    preload,
    record_own_modules,
    relocate_standard_streams,
    reset_signals,
    stop_deferring_handlers,
)
from .substitutes import HANG_UP, READ, Selector, suppress
from .unit import RunnerContext
from .workdir import WorkDirectory, WorkDirectoryNotEmptiedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from .frames import Header
    from .relay import GuestRelay
    from .requests import BeginFrame
    from .session import GuestSession
    from .unit import RunningUnit

WORK = "/sandbox"
_EXIT_RUNNER_FAULT = 70
_READ_BYTES = 256 * 1024
_FLUSH_DELAY_S = 0.02
"""Seconds for which a running unit's frames are buffered, because each write wakes up the daemon."""
_MAX_UNSENT = 32 * 1024


def main(work: str = WORK) -> NoReturn:
    """Process the daemon's requests on standard input and output until the input ends, and then exit."""
    kernel.set_dumpable(False)
    reset_signals()
    environment = extract_environment()
    sys.dont_write_bytecode = True
    source, sink = relocate_standard_streams()
    os._exit(Runner(source, sink, work, environment).serve())


def prepare() -> None:
    """Load everything that any attempt can need. A template calls this function before it is cloned."""
    from .builtin_names import collect_builtins
    from .seccomp import get_filters

    load_session()
    load_programs(PROGRAMS)
    create_text_streams()
    reset_signals()
    extract_environment()
    collect_builtins()
    for allow_exec in (False, True):
        get_filters(allow_exec=allow_exec, allow_inet=False)
    record_own_modules()


def load_session() -> type[GuestSession]:
    """Import and return the session class on first use, so that the start of the runner isn't delayed."""
    from .session import GuestSession

    return GuestSession


class Runner:
    """A connection of the runner to the daemon, from start to end."""

    def __init__(self, source: int, sink: int, work: str, environment: Mapping[str, str]) -> None:
        self._source = source
        self._sink = sink
        self._decoder = FrameDecoder()
        self._children = kernel.open_child_signals()
        cgroup = Cgroup()
        self._around = RunnerContext(
            selector=Selector(),
            processes=DescendantProcesses(cgroup),
            waiting=RunQueueDelayMeter(),
            cgroup=cgroup,
            work=WorkDirectory(work),
            environment=environment,
            shared=open_shared_memory() if os.getpid() == 1 else (),
            send=self._send,
        )
        self._greeted = False
        self._done = False
        self._session: GuestSession | None = None
        self._unit: RunningUnit | None = None
        self._exit: int | None = None
        self._unsent = bytearray()
        self._send_at = 0.0

    def serve(self) -> int:
        """Process frames until the connection ends or a fault occurs, and return the exit status."""
        selector = self._around.selector
        selector.register(self._source, READ, self._read_frames)
        selector.register(self._children, READ, self._drain_signals)
        try:
            while self._exit is None:
                self._run_once()
        except UnconfinedChildError as problem:
            self._send_fault("unconfined", str(problem))
        except (
            InvalidRequest,
            FrameError,
            ProcessesRemainError,
            WorkDirectoryNotEmptiedError,
            OSError,
        ) as problem:
            self._send_fault("fault", f"{type(problem).__name__}: {problem}")
        with suppress(OSError):  # the daemon has disconnected
            self._flush()
        with suppress(ProcessesRemainError):
            list(self._around.processes.kill_all())
        assert self._exit is not None  # noqa: S101 - each way out of the loop sets it
        return self._exit

    def _send_fault(self, kind: str, message: str) -> None:
        self._exit = _EXIT_RUNNER_FAULT
        with suppress(OSError):
            self._send({"type": kind, "message": message[:1000]}, b"")

    def _run_once(self) -> None:
        self._wait_for_events()
        if self._unit is not None and self._unit.check():
            more = self._unit.request.more
            self._unit = None
            self._update_read_events()
            if more and self._session is not None:
                with suppress(OSError):  # the next unit tries again, and reports the fault
                    self._session.prefork_child()

    def _wait_for_events(self) -> None:
        """Wait for events. Before a potentially long wait, send the buffered output."""
        wait_s = self._unit.max_wait_s() if self._unit is not None else None
        if self._unsent:
            keep_s = self._send_at - time.monotonic()
            if keep_s > 0 and wait_s is not None and not self._has_relay:
                self._around.selector.wait(min(keep_s, wait_s))
                return
            # The next unit may have been sent ahead.
            if keep_s > 0 and wait_s is None and self._around.selector.wait(0.0):
                return
            self._flush()
        self._around.selector.wait(wait_s)

    @property
    def _has_relay(self) -> bool:
        return self._session is not None and self._session.relay is not None

    def _update_read_events(self) -> None:
        """Read frames only while no unit runs. Frames that arrive earlier stay unread until the unit ends.

        Under an allowlist, frames are always read, because they can belong to connections, and the daemon
        sends no unit in advance.
        """
        lives = self._unit is not None and not self._has_relay
        self._around.selector.modify(self._source, HANG_UP if lives else READ)

    def _read_frames(self) -> None:
        """Read up to the end of a frame, without consuming bytes of the next frame.

        At the end of the input, set the exit status.
        """
        if self._unit is not None and self._session is not None and not self._has_relay:
            self._exit = 0  # nothing is being read, so this is the end of the stream
            return
        while True:
            content = os.read(self._source, min(self._decoder.missing, _READ_BYTES))
            if not content:
                self._exit = 0
                return
            for header, body in self._decoder.feed(content):
                self._handle_frame(header, body)
            if not self._decoder.buffered_bytes or self._unit is not None or self._exit is not None:
                return

    def _drain_signals(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._children, 4096)

    def _handle_frame(self, header: Header, body: bytes) -> None:
        kind = header["type"]
        if str(kind).startswith("stream_"):
            self._require_relay().process_frame(header, body)
            return
        if self._unit is not None:
            raise InvalidRequest(f"{kind} while a unit runs")
        if not self._greeted:
            self._expect_kind(kind, "hello")
            self._handle_hello(header)
        elif self._done or kind == "leave":
            self._expect_kind(kind, "leave")
            self._exit = 0
        elif self._session is None:
            self._expect_kind(kind, "begin")
            self._begin_attempt(read_attempt(header))
        else:
            self._handle_attempt_frame(self._session, header, body)

    def _handle_attempt_frame(self, session: GuestSession, header: Header, body: bytes) -> None:
        match header["type"]:
            case "file":
                session.add_file(header, body)
            case "solution":
                session.add_solution(body)
            case "common":
                session.add_common(body)
            case "database":
                session.add_database(body)
            case "stdin":
                session.add_stdin(body)
            case "arguments":
                session.add_arguments(body)
            case "unit":
                self._unit = session.start(parse_unit_request(header), body)
                self._update_read_events()
            case "finish":
                self._finish_session(session)
            case other:
                raise InvalidRequest(f"unexpected {other}")

    def _require_relay(self) -> GuestRelay:
        if self._session is None or self._session.relay is None:
            raise InvalidRequest("this container has no relay")
        return self._session.relay

    def _begin_attempt(self, attempt: BeginFrame) -> None:
        """Load the modules that the units need, and then fork the child of the first unit."""
        self._around.waiting.measure_delay_s()
        for name in attempt.preload:
            preload(name)
        programs = load_programs(attempt.programs)
        relay = None
        if attempt.relay is not None:
            from .relay import GuestRelay  # imports `socket` if connections are relayed

            relay = GuestRelay(self._around.selector, self._send)
        session = load_session()(attempt, programs, self._around, relay)
        hide_own_modules()
        stop_deferring_handlers(guest_forks=attempt.limits.max_processes > 1)
        freeze_memory()
        self._session = session
        session.prefork_child()

    def _handle_hello(self, header: Header) -> None:
        if (theirs := get(header, "protocol", int)) != PROTOCOL:
            raise InvalidRequest(f"this runner speaks protocol {PROTOCOL}, not {theirs}")
        wanted = get_strings(header, "preload")
        failed = [name for name in wanted if not preload(name)]
        freeze_memory()
        self._greeted = True
        ready: Header = {
            "type": "ready",
            "protocol": PROTOCOL,
            "python": ".".join(map(str, sys.version_info[:3])),
        }
        ready |= {"preloaded": len(wanted) - len(failed), "preload_failed": failed}
        ready |= {"cgroup": self._around.cgroup.version, "memory_bytes": self._around.cgroup.memory_bytes()}
        self._send(ready, b"")
        # The daemon may take this long to send the next request.
        load_session()
        record_own_modules()

    def _finish_session(self, session: GuestSession) -> None:
        dropped = session.send_outputs()
        peak = self._around.cgroup.peak_memory_bytes()
        self._send({"type": "bye", "outputs_dropped": dropped, "peak_memory_bytes": peak}, b"")
        self._done = True

    def _send(self, header: Header, body: bytes) -> None:
        """Add a frame to the output buffer, and flush the buffer if it is too large."""
        if not self._unsent:
            self._send_at = time.monotonic() + _FLUSH_DELAY_S
        self._unsent += encode_frame(header, body)
        if len(self._unsent) > _MAX_UNSENT:
            self._flush()

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, bytearray()
        rest = memoryview(unsent)
        while rest:
            rest = rest[os.write(self._sink, rest) :]

    def _expect_kind(self, kind: object, wanted: str) -> None:
        if kind != wanted:
            raise InvalidRequest(f"{kind} where {wanted} was expected")
