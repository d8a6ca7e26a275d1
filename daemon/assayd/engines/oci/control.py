"""The daemon's end of a socket to a process that starts containers: the launcher or a template.

Both use the same protocol: the daemon sends a request with descriptors; the peer responds with a pidfd or
an error, and later sends the process's exit code. If the peer sends any other message, it isn't trusted
anymore, and all processes that it started are ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from assayd.engines.oci.launcher import MESSAGE_BYTES
from assayd.errors import EngineError


class Process:
    """A container's first process, as reported by its starter; ``exit_code`` is None until it exits.

    If the starter dies first, ``exit_code`` stays None, because it is unknown.
    """

    def __init__(self, pid: int, descriptor: int | None) -> None:
        self.pid = pid
        self.exit_code: int | None = None
        self.ended = asyncio.Event()
        self._descriptor = descriptor

    def kill(self) -> None:
        """Kill the process and, since it is the first of its namespace, all processes of the container."""
        if self._descriptor is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def end(self, code: int | None) -> None:
        """Record that the process has exited."""
        self.exit_code = code
        self.ended.set()
        self.close()

    def close(self) -> None:
        """Close the pidfd."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class StartFailed(Exception):
    """An exception raised when no container was started. It contains the starter's error number."""


class Control:
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
        self._starting: dict[str, asyncio.Future[Process]] = {}
        self._running: dict[str, Process] = {}
        self._borrowing: dict[str, asyncio.Future[int]] = {}
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.gone = False
        self._loop.add_reader(control, self._receive_messages)

    async def start(self, name: str, request: Mapping[str, object], descriptors: Sequence[int]) -> Process:
        """Start a container and wait for its first process.

        Raises: StartFailed; EngineError ``engine.launcher``, if the peer died.
        """
        if self.gone:
            raise self._death_error()
        waiting: asyncio.Future[Process] = self._loop.create_future()
        self._starting[name] = waiting
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], list(descriptors))
            return await waiting
        except OSError as problem:
            raise self._death_error() from problem
        finally:
            self._starting.pop(name, None)

    async def borrow(self, name: str, request: Mapping[str, object]) -> int:
        """Return the descriptor with which the peer responds to a request.

        Raises: StartFailed; EngineError ``engine.launcher``, if the peer died.
        """
        if self.gone:
            raise self._death_error()
        waiting: asyncio.Future[int] = self._loop.create_future()
        try:
            self._control.send(json.dumps(request).encode())
        except OSError as problem:
            raise self._death_error() from problem
        self._borrowing[name] = waiting  # Kept until the answer, even if the caller is cancelled.
        return await waiting

    def forget(self, name: str) -> None:
        """Forget a container that was removed."""
        process = self._running.pop(name, None)
        if process is not None:
            process.close()

    def lose(self) -> None:
        """End the connection and all processes that were started on it. Further calls do nothing."""
        if self.gone:
            return
        self.gone = True
        self._loop.remove_reader(self._control)
        self._control.close()
        if not self.ready.done():
            self.ready.set_exception(self._death_error())
        either: list[asyncio.Future[Process] | asyncio.Future[int]] = [*self._starting.values()]
        for waiting in (*either, *self._borrowing.values()):
            if not waiting.done():
                waiting.set_exception(self._death_error())
        if not self.ready.cancelled():
            self.ready.exception()  # The caller may have been cancelled.
        for process in self._running.values():
            process.kill()
            process.end(None)
        self._running.clear()
        self._borrowing.clear()
        self._on_lost()

    def _receive_messages(self) -> None:
        """Receive and handle the peer's messages."""
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
            self.lose()

    def _handle_reply(self, reply: Mapping[str, object], descriptors: list[int]) -> bool:
        """Handle a reply, and return whether it was expected."""
        name = str(reply["id"])
        if not name:
            return self._handle_ready(reply)
        if name in self._borrowing:
            return self._handle_descriptor(self._borrowing.pop(name), reply, descriptors)
        waiting = self._starting.get(name)
        if "code" in reply:
            code = int(str(reply["code"]))
            if (process := self._running.pop(name, None)) is not None:
                process.end(code)
        elif "failed" in reply:
            if waiting is not None and not waiting.done():
                waiting.set_exception(StartFailed(str(reply["failed"])))
        elif name in self._running:
            return False
        else:
            descriptor = descriptors[0] if descriptors else None
            process = Process(int(str(reply["pid"])) or _pid_from_pidfd(descriptor), descriptor)
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
            waiting.set_exception(StartFailed(str(reply["failed"])))
        elif descriptors:
            waiting.set_result(descriptors.pop())
        else:
            waiting.set_exception(self._death_error())
            return False
        return True

    def _death_error(self) -> EngineError:
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
