"""Analysis workers as processes: starts their parent, which imports all kinds and forks the workers.

The parent's code is in `forking`. The daemon identifies a worker by the process descriptor that the parent
sends, not by its PID.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from assayd.analysis.forking import MESSAGE_BYTES, REQUEST
from assayd.errors import AssaydError

_EXIT_ORPHANED = 1
"""Exit status of a worker whose parent has ended: an internal error, whatever the worker was reading."""
_CRASH_EXIT_CODES = frozenset(
    {-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL, -signal.SIGABRT, -signal.SIGFPE}
)


class WorkerProcess:
    """An analysis worker process. `returncode` is None until the process has exited."""

    def __init__(self, descriptor: int) -> None:
        self.returncode: int | None = None
        self._descriptor = descriptor
        self._ended = asyncio.Event()

    def kill(self) -> None:
        """Kill the worker. Raises: ProcessLookupError if it has already exited."""
        if self.returncode is not None:
            raise ProcessLookupError
        signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    async def wait(self) -> int | None:
        """Wait until the worker has exited. Return its exit status, which is negative for a signal."""
        await self._ended.wait()
        return self.returncode

    def end(self, status: int) -> None:
        """Record the worker's exit status, close its pidfd, and wake the callers of `wait`."""
        self.returncode = status
        os.close(self._descriptor)
        self._ended.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedWorker:
    """A forked worker, together with its stream."""

    process: WorkerProcess
    stream: socket.socket


class WorkerParent:
    """The daemon's handle for the process that forks workers. Create it with `start`."""

    def __init__(self, control: socket.socket, process: Process) -> None:
        self._control = control
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._asked: deque[asyncio.Future[WorkerProcess]] = deque()
        self._running: dict[int, WorkerProcess] = {}
        self.retired = False
        """Whether this process must not fork workers anymore: it has exited, or a worker has crashed.

        A crash may have revealed the memory layout to submitted code.
        """
        control.setblocking(False)
        self._loop.add_reader(control, self._receive_message)

    @classmethod
    async def start(cls, module: str, arguments: Sequence[str]) -> WorkerParent:
        """Start a module as a program that calls `fork_on_request`, and return its handle.

        Raises: OSError, if the program can't be started.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                command = (sys.executable, "-P", "-m", module, *arguments)
                process = await asyncio.create_subprocess_exec(
                    *command, stdin=theirs.fileno(), stdout=DEVNULL
                )
            except BaseException:
                ours.close()
                raise
        return cls(ours, process)

    async def fork(self) -> StartedWorker:
        """Fork a worker and return it. Raises: AssaydError ``analysis.unavailable``."""
        if self.retired:
            raise _build_unavailable_error()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        forked: asyncio.Future[WorkerProcess] = self._loop.create_future()
        try:
            with theirs:
                socket.send_fds(self._control, [REQUEST], [theirs.fileno()])
            self._asked.append(forked)
            process = await forked
        except OSError as problem:
            ours.close()
            raise _build_unavailable_error() from problem
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        return StartedWorker(process=process, stream=ours)

    @property
    def is_done(self) -> bool:
        """Return whether this parent is retired and all of its workers have exited."""
        return self.retired and not self._running and not self._asked

    async def close(self) -> None:
        """Kill the parent process. Its workers exit when their streams are closed."""
        self._handle_parent_exit()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    def _receive_message(self) -> None:
        """Handle a message from the parent: a worker was forked or has exited.

        If the connection is closed, treat the parent as exited.
        """
        try:
            flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
            data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 1, flags)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._handle_parent_exit()
            return
        said = json.loads(data)
        number = int(said["fd"])
        if "status" in said:
            status = int(said["status"])
            self.retired = self.retired or status in _CRASH_EXIT_CODES
            self._running.pop(number).end(status)
            return
        process = self._running[number] = WorkerProcess(descriptors[0])
        waiting = self._asked.popleft()
        if waiting.cancelled():
            process.kill()
        else:
            waiting.set_result(process)

    def _handle_parent_exit(self) -> None:
        """Mark the parent as exited, fail the pending fork requests, and kill the workers that it forked."""
        if self._control.fileno() < 0:
            return
        self.retired = True
        self._loop.remove_reader(self._control)
        self._control.close()
        while self._asked:
            if not (waiting := self._asked.popleft()).done():
                waiting.set_exception(_build_unavailable_error())
        for process in self._running.values():
            with suppress(ProcessLookupError):
                process.kill()
            process.end(_EXIT_ORPHANED)
        self._running.clear()


class WorkerParents:
    """The process that forks workers, and the retired ones whose workers haven't exited yet.

    Args:
        module: the program; see `WorkerParent.start`.
        arguments: the program's arguments.
    """

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        self._module = module
        self._arguments = arguments
        self._parents: list[WorkerParent] = []
        self._starting = asyncio.Lock()

    async def fork(self) -> StartedWorker:
        """Fork a worker and return it. Raises: AssaydError ``analysis.unavailable``."""
        return await (await self.ensure()).fork()

    async def ensure(self) -> WorkerParent:
        """Return the process that forks workers. Start a new one if none is running or it is retired.

        Raises: AssaydError ``analysis.unavailable``, if it can't be started.
        """
        async with self._starting:
            if self._parents and not self._parents[-1].retired:
                return self._parents[-1]
            for parent in [each for each in self._parents if each.is_done]:
                self._parents.remove(parent)
                await parent.close()
            try:
                self._parents.append(await WorkerParent.start(self._module, self._arguments))
            except OSError as problem:
                raise _build_unavailable_error() from problem
            return self._parents[-1]

    async def close(self) -> None:
        """End all parents; their workers exit when their streams are closed."""
        await asyncio.gather(*(parent.close() for parent in self._parents))


def _build_unavailable_error() -> AssaydError:
    return AssaydError("analysis.unavailable", "can't start an analysis worker")
