"""The daemon's end of a container's process: its streams as pipes, and its start by the launcher.

A socket leads to the process that starts containers: the launcher or a template. Both use the same
protocol: the daemon sends a request with descriptors; the peer responds with a pidfd or an error, and later
sends the process's exit code. If the peer sends any other message, it isn't trusted anymore, and all
processes that it started are ended.

Read-only mounts for another mount namespace are passed as descriptors, too.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from assayd.engines.oci import launcher
from assayd.engines.oci.host import IdRange
from assayd.engines.oci.launcher import MESSAGE_BYTES
from assayd.errors import EngineError


class ContainerProcess:
    """A container's first process, as reported by its starter. ``exit_code`` is None until it exits.

    If the starter dies first, ``exit_code`` stays None, because it is unknown.
    """

    def __init__(self, pid: int, descriptor: int | None) -> None:
        self.pid = pid
        self.exit_code: int | None = None
        self.ended = asyncio.Event()
        self._descriptor = descriptor

    def kill(self) -> None:
        """Kill the process and, since it is the first of its namespace, all processes of the container.

        Do nothing if it has exited.
        """
        if self._descriptor is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def end(self, code: int | None) -> None:
        """Record the exit code (None if it is unknown), wake all waiters, and close the pidfd."""
        self.exit_code = code
        self.ended.set()
        self.close()

    def close(self) -> None:
        """Close the pidfd."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class ContainerStartError(Exception):
    """An exception raised when no container was started. It contains the starter's error number."""


class LauncherConnection:
    """The daemon's end of the socket, with its open requests and running containers.

    Args:
        control: the daemon's end, which this object takes over.
        name: the peer's name, for messages.
        on_lost: called once, when the connection ends for any reason.
    """

    def __init__(self, control: socket.socket, name: str, on_lost: Callable[[], None]) -> None:
        self._control = control
        self._name = name
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._starting: dict[str, asyncio.Future[ContainerProcess]] = {}
        self._running: dict[str, ContainerProcess] = {}
        self._requested_descriptors: dict[str, asyncio.Future[int]] = {}
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.gone = False
        self._loop.add_reader(control, self._receive_messages)

    async def start(
        self, name: str, request: Mapping[str, object], descriptors: Sequence[int]
    ) -> ContainerProcess:
        """Start a container and wait for its first process.

        Raises: ContainerStartError, if the peer reports a failure; EngineError ``engine.launcher``, if the
        peer died.
        """
        if self.gone:
            raise self._build_exited_error()
        waiting: asyncio.Future[ContainerProcess] = self._loop.create_future()
        self._starting[name] = waiting
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], list(descriptors))
            return await waiting
        except OSError as problem:
            raise self._build_exited_error() from problem
        finally:
            self._starting.pop(name, None)

    async def request_descriptor(self, name: str, request: Mapping[str, object]) -> int:
        """Return the descriptor with which the peer responds to a request.

        Raises: ContainerStartError, if the peer reports a failure; EngineError ``engine.launcher``, if the
        peer died.
        """
        if self.gone:
            raise self._build_exited_error()
        waiting: asyncio.Future[int] = self._loop.create_future()
        try:
            self._control.send(json.dumps(request).encode())
        except OSError as problem:
            raise self._build_exited_error() from problem
        self._requested_descriptors[name] = waiting  # Kept until the answer, even if the caller is cancelled.
        return await waiting

    def forget(self, name: str) -> None:
        """Stop tracking a removed container, and close its pidfd."""
        process = self._running.pop(name, None)
        if process is not None:
            process.close()

    def disconnect(self) -> None:
        """End the connection and all processes that were started on it. Further calls do nothing."""
        if self.gone:
            return
        self.gone = True
        self._loop.remove_reader(self._control)
        self._control.close()
        if not self.ready.done():
            self.ready.set_exception(self._build_exited_error())
        either: list[asyncio.Future[ContainerProcess] | asyncio.Future[int]] = [*self._starting.values()]
        for waiting in (*either, *self._requested_descriptors.values()):
            if not waiting.done():
                waiting.set_exception(self._build_exited_error())
        if not self.ready.cancelled():
            self.ready.exception()  # The caller may have been cancelled.
        for process in self._running.values():
            process.kill()
            process.end(None)
        self._running.clear()
        self._requested_descriptors.clear()
        self._on_lost()

    def _receive_messages(self) -> None:
        """Receive and handle one message. Disconnect if the message is unexpected or the peer is gone."""
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 1, flags)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        try:
            heard = bool(data) and self._handle_reply(json.loads(data), descriptors)
        except (ValueError, KeyError, TypeError):
            heard = False
        if not heard:
            for descriptor in descriptors:
                os.close(descriptor)
            self.disconnect()

    def _handle_reply(self, reply: Mapping[str, object], descriptors: list[int]) -> bool:
        """Handle a reply, and return whether it was expected."""
        name = str(reply["id"])
        if not name:
            return self._handle_ready(reply)
        if name in self._requested_descriptors:
            return self._handle_descriptor(self._requested_descriptors.pop(name), reply, descriptors)
        waiting = self._starting.get(name)
        if "code" in reply:
            code = int(str(reply["code"]))
            if (process := self._running.pop(name, None)) is not None:
                process.end(code)
        elif "failed" in reply:
            if waiting is not None and not waiting.done():
                waiting.set_exception(ContainerStartError(str(reply["failed"])))
        elif name in self._running:
            return False
        else:
            descriptor = descriptors[0] if descriptors else None
            process = ContainerProcess(int(str(reply["pid"])) or _pid_from_pidfd(descriptor), descriptor)
            descriptors.clear()
            self._running[name] = process
            if waiting is None or waiting.done():
                process.kill()  # The caller was cancelled.
            else:
                waiting.set_result(process)
        return True

    def _handle_ready(self, reply: Mapping[str, object]) -> bool:
        if not self.ready.done():
            if "failed" in reply:
                self.ready.set_exception(EngineError("engine.launcher", str(reply["failed"])))
            else:
                self.ready.set_result(None)
        return True

    def _handle_descriptor(
        self, waiting: asyncio.Future[int], reply: Mapping[str, object], descriptors: list[int]
    ) -> bool:
        if waiting.done():
            for descriptor in descriptors:
                os.close(descriptor)
        elif "failed" in reply:
            waiting.set_exception(ContainerStartError(str(reply["failed"])))
        elif descriptors:
            waiting.set_result(descriptors.pop())
        else:
            waiting.set_exception(self._build_exited_error())
            return False
        return True

    def _build_exited_error(self) -> EngineError:
        return EngineError("engine.launcher", f"{self._name} has died", retryable=True)


def _pid_from_pidfd(descriptor: int | None) -> int:
    """Return the PID of the process behind a pidfd, as reported by the kernel rather than by the sender.

    Raises: ValueError, if the descriptor isn't a pidfd.
    """
    if descriptor is None:
        raise ValueError("a process without a descriptor")
    for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "Pid":
            return int(value)
    raise ValueError("a descriptor that isn't a process")


_READ_BYTES = 256 * 1024
_DIAGNOSTICS_BYTES = 8 * 1024
_EXIT_TIMEOUT_S = 10.0


class PipeStream:
    """An implementation of `RunnerStreams` for one container. Call `connect` before use.

    Args:
        inspect: a function that is called once, before the first bytes are passed on, because the runner is
            fully confined by then. If it raises an EngineError, `read` raises this error.
    """

    def __init__(self, inspect: Callable[[], Awaitable[None]]) -> None:
        self._inspect: Callable[[], Awaitable[None]] | None = inspect
        self._reader = asyncio.StreamReader(limit=_READ_BYTES)
        self._stdin_protocol = _InputProtocol()
        self._complaints = _StderrProtocol()
        self._writing: asyncio.WriteTransport | None = None
        self._reading: list[asyncio.ReadTransport] = []
        self._closed = False

    async def connect(self, ends: PipeEnds) -> None:
        """Connect the daemon's pipe ends to the running event loop, which then owns them."""
        loop = asyncio.get_running_loop()
        reading = asyncio.StreamReaderProtocol(self._reader)
        # The loop takes over or closes the first in any case; the others when it is their turn.
        with ExitStack() as waiting:
            waiting.callback(ends.stdout.close)
            waiting.callback(ends.stderr.close)
            self._writing = (await loop.connect_write_pipe(lambda: self._stdin_protocol, ends.stdin))[0]
            ends.stdin.release_to(loop)
            waiting.pop_all()
            waiting.callback(ends.stderr.close)
            self._reading.append((await loop.connect_read_pipe(lambda: reading, ends.stdout))[0])
            ends.stdout.release_to(loop)
            waiting.pop_all()
            self._reading.append((await loop.connect_read_pipe(lambda: self._complaints, ends.stderr))[0])
            ends.stderr.release_to(loop)

    async def read(self) -> bytes:
        """Return the next bytes of standard output.

        The result is empty at the end of the output and after `close`.

        Raises: EngineError, if the inspection before the first bytes fails.
        """
        data = await self._reader.read(_READ_BYTES)
        if self._closed or not data:
            return b""
        if self._inspect is not None:
            await self._inspect()
            self._inspect = None
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes to standard input. Wait while its buffer is full.

        Raises: EngineError ``engine.stream_broken``, if the container no longer reads or the stream is
        closed.
        """
        if self._writing is None or self._stdin_protocol.lost:
            raise _build_launcher_error()
        self._writing.write(data)
        await self._stdin_protocol.room.wait()
        if self._stdin_protocol.lost:
            raise _build_launcher_error()

    @property
    def diagnostics(self) -> bytes:
        """Return at most the last 8 KiB of standard error."""
        return self._complaints.kept

    async def close(self) -> None:
        """Close the pipes and discard unread data."""
        if self._closed:
            return
        self._closed = True
        self._stdin_protocol.connection_lost(None)
        if self._writing is not None and not self._writing.is_closing():
            self._writing.abort()
        for transport in self._reading:
            transport.close()
        if not self._reader.at_eof():
            self._reader.feed_eof()


class PipeEnd:
    """One of the daemon's pipe ends. It ensures that the descriptor is closed exactly once.

    asyncio closes the object that it was given. uvloop first closes the descriptor itself (libuv's
    ``uv_close``), and later also closes the object; in the meantime, another thread can have opened a file
    with the same descriptor number.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._ours = True

    def fileno(self) -> int:
        """Return the pipe's file descriptor."""
        return self._descriptor

    def release_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Transfer the descriptor to an event loop that closes the descriptor itself.

        Do nothing for asyncio's loop, which closes this object instead.
        """
        self._ours = self._ours and isinstance(loop, asyncio.BaseEventLoop)

    def close(self) -> None:
        """Close the descriptor, unless it is already closed or owned by the event loop."""
        if self._ours:
            self._ours = False
            os.close(self._descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeEnds:
    """The daemon's ends of the pipes to a container."""

    stdin: PipeEnd
    stdout: PipeEnd
    stderr: PipeEnd

    def close(self) -> None:
        """Close the pipe ends that the event loop doesn't own."""
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()


def create_pipes() -> tuple[PipeEnds, list[int]]:
    """Create three pipes, and return the daemon's ends, and the container's ends in descriptor order."""
    pairs = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
    ours = [pairs[0][1], pairs[1][0], pairs[2][0]]
    stdin, stdout, stderr = map(PipeEnd, ours)
    return PipeEnds(stdin=stdin, stdout=stdout, stderr=stderr), [pairs[0][0], pairs[1][1], pairs[2][1]]


class _InputProtocol(asyncio.BaseProtocol):
    """The protocol of standard input, which tracks whether the pipe accepts more data and has a reader."""

    def __init__(self) -> None:
        self.room = asyncio.Event()
        self.room.set()
        self.lost = False

    def pause_writing(self) -> None:
        self.room.clear()

    def resume_writing(self) -> None:
        self.room.set()

    def connection_lost(self, problem: Exception | None) -> None:
        self.lost = True
        self.room.set()


class _StderrProtocol(asyncio.Protocol):
    """The protocol of standard error, which keeps only the last bytes."""

    def __init__(self) -> None:
        self.kept = b""

    def data_received(self, data: bytes) -> None:
        self.kept = (self.kept + data)[-_DIAGNOSTICS_BYTES:]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """A request to the launcher for one container."""

    name: str
    arguments: Sequence[str]
    join: Sequence[str]
    pid_file: Path


class LauncherProcess:
    """The launcher process. Use `start` and `close`."""

    def __init__(self, control: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self._control = LauncherConnection(control, "the container launcher", lambda: None)
        self._process = process

    @property
    def gone(self) -> bool:
        """Return whether the launcher has exited."""
        return self._control.gone

    @classmethod
    async def start(
        cls,
        *,
        images: str,
        image_mount_folder: str,
        hugetlb: str,
        timeout_s: float,
        ids: IdRange | None = None,
    ) -> LauncherProcess:
        """Start the launcher, wait until it accepts requests, and return it.

        Args:
            images: the folder of root filesystems.
            image_mount_folder: the folder that shows them to containers; "" if they can access `images`.
            hugetlb: the mount point of the hugetlb control groups, if the runtime needs them; "" for none.
            timeout_s: the maximum number of seconds for the start.
            ids: the user ids for containers, if the daemon doesn't run as root.

        Raises: EngineError ``engine.launcher``, if it fails or doesn't start in time.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-I", "-S", launcher.__file__, str(theirs.fileno())]
            given = [] if ids is None else [str(ids.first), str(ids.count)]
            process = subprocess.Popen(  # noqa: ASYNC220 - two milliseconds, once
                [*command, images, image_mount_folder, hugetlb, *given],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        made = cls(ours, process)
        try:
            async with asyncio.timeout(timeout_s):
                await made._control.ready
        except asyncio.CancelledError:
            made.close()
            raise
        except (EngineError, TimeoutError) as problem:
            made.close()
            message = f"the container launcher didn't start: {problem}"
            raise EngineError("engine.launcher", message, retryable=True) from problem
        return made

    async def launch(self, launch: LaunchRequest, streams: Sequence[int]) -> ContainerProcess:
        """Start a container and wait for its first process.

        Raises: ContainerStartError, if the runtime fails; EngineError ``engine.launcher``, if the launcher
        died.
        """
        request = {
            "id": launch.name,
            "argv": list(launch.arguments),
            "join": list(launch.join),
            "pidfile": str(launch.pid_file),
        }
        return await self._control.start(launch.name, request, streams)

    async def request_read_only_mount(self, name: str, path: str) -> int:
        """Return a descriptor of a read-only mount of a folder.

        The mount is created with the launcher's permissions.

        Args:
            name: the container's name.
            path: the folder.

        Raises: EngineError ``engine.template``, if the kernel rejects the mount; ``engine.launcher``, if the
        launcher died.
        """
        try:
            return await self._control.request_descriptor(name, {"id": name, "tree": path})
        except ContainerStartError as problem:
            raise build_mount_error(path, int(str(problem))) from problem

    def forget(self, name: str) -> None:
        """Stop tracking a removed container."""
        self._control.forget(name)

    def close(self) -> None:
        """Disconnect from the launcher, which then ends its containers and exits.

        If it doesn't exit within 10 s, kill it; the reaper then removes the remaining containers.
        """
        self._control.disconnect()
        try:
            self._process.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # The reaper finds the containers that it couldn't end.
            self._process.kill()
            self._process.wait()


def _build_launcher_error() -> EngineError:
    return EngineError("engine.stream_broken", "the container no longer reads its input", retryable=True)


_libc = ctypes.CDLL(None, use_errno=True)


def open_read_only_mount(path: str) -> int:
    """Return a descriptor of a detached, permanently read-only mount of a folder.

    Raises: EngineError ``engine.template``, if the kernel rejects the mount.
    """
    try:
        return launcher.open_read_only_mount(_libc, path)
    except OSError as problem:
        raise build_mount_error(path, problem.errno or 0) from problem


def build_mount_error(path: str, number: int) -> EngineError:
    """Return the error for a folder that can't be mounted for a container."""
    old = "; templates need Linux 5.12" if number == errno.ENOSYS else ""
    return EngineError("engine.template", f"can't map the owner of {path}: {os.strerror(number)}{old}")
