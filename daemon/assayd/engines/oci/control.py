"""The daemon's end of a socket on which another process starts containers: the launcher's, or a template's.

Both are spoken to alike: a request with descriptors, answered by a process's descriptor or by why there is
none; later the process's exit code. What answers otherwise is not believed any more: everything that it
started is ended.
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
    """A container's first process, as its starter told of it; ``exit_code`` is None until it has ended.

    If the starter died first, the end of a process is unknown, and the code stays None.
    """

    def __init__(self, pid: int, descriptor: int | None) -> None:
        self.pid = pid
        self.exit_code: int | None = None
        self.ended = asyncio.Event()
        self._descriptor = descriptor

    def kill(self) -> None:
        """Kill it, and with it, as it is the first of its namespace, every process of the container."""
        if self._descriptor is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def end(self, code: int | None) -> None:
        """Take note of its end."""
        self.exit_code = code
        self.ended.set()
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class StartFailed(Exception):
    """No container was started; carries the starter's error number."""


class Control:
    """The socket, its open requests, and the running containers.

    Args:
        control: the daemon's end; its own from here on.
        name: the peer's name, for messages.
        on_lost: called once, when nothing more is to come.
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
        self._loop.add_reader(control, self._take)

    async def start(self, name: str, request: Mapping[str, object], descriptors: Sequence[int]) -> Process:
        """Start a container, and wait for its first process.

        Raises: StartFailed; EngineError ``engine.launcher`` when the other end died.
        """
        if self.gone:
            raise self._has_died()
        waiting: asyncio.Future[Process] = self._loop.create_future()
        self._starting[name] = waiting
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], list(descriptors))
            return await waiting
        except OSError as problem:
            raise self._has_died() from problem
        finally:
            self._starting.pop(name, None)

    async def borrow(self, name: str, request: Mapping[str, object]) -> int:
        """Return the descriptor that a request is answered with.

        Raises: StartFailed; EngineError ``engine.launcher`` when the other end died.
        """
        if self.gone:
            raise self._has_died()
        waiting: asyncio.Future[int] = self._loop.create_future()
        try:
            self._control.send(json.dumps(request).encode())
        except OSError as problem:
            raise self._has_died() from problem
        self._borrowing[name] = waiting  # until it is answered, even if the caller was cancelled
        return await waiting

    def forget(self, name: str) -> None:
        """Forget a container that is gone."""
        process = self._running.pop(name, None)
        if process is not None:
            process.close()

    def lose(self) -> None:
        """End the conversation and everything that was started in it; nothing when that was done."""
        if self.gone:
            return
        self.gone = True
        self._loop.remove_reader(self._control)
        self._control.close()
        if not self.ready.done():
            self.ready.set_exception(self._has_died())
        either: list[asyncio.Future[Process] | asyncio.Future[int]] = [*self._starting.values()]
        for waiting in (*either, *self._borrowing.values()):
            if not waiting.done():
                waiting.set_exception(self._has_died())
        if not self.ready.cancelled():
            self.ready.exception()  # the caller may have been cancelled
        for process in self._running.values():
            process.kill()
            process.end(None)
        self._running.clear()
        self._borrowing.clear()
        self._on_lost()

    def _take(self) -> None:
        """Take what the other end says."""
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 1, flags)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        try:
            heard = bool(data) and self._hear(json.loads(data), descriptors)
        except (ValueError, KeyError, TypeError):
            heard = False
        if not heard:
            for descriptor in descriptors:
                os.close(descriptor)
            self.lose()

    def _hear(self, reply: Mapping[str, object], descriptors: list[int]) -> bool:
        """Take note of a reply; return whether it is one that could be expected."""
        name = str(reply["id"])
        if not name:
            return self._hear_ready(reply)
        if name in self._borrowing:
            return self._hear_of_borrowed(self._borrowing.pop(name), reply, descriptors)
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
            process = Process(int(str(reply["pid"])) or _pid_of(descriptor), descriptor)
            descriptors.clear()
            self._running[name] = process
            if waiting is None or waiting.done():
                process.kill()  # the caller was cancelled
            else:
                waiting.set_result(process)
        return True

    def _hear_ready(self, reply: Mapping[str, object]) -> bool:
        if not self.ready.done():
            if "failed" in reply:
                self.ready.set_exception(EngineError("engine.launcher", str(reply["failed"])))
            else:
                self.ready.set_result(None)
        return True

    def _hear_of_borrowed(
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
            waiting.set_exception(self._has_died())
            return False
        return True

    def _has_died(self) -> EngineError:
        return EngineError("engine.launcher", f"{self._name} has died", retryable=True)


def _pid_of(descriptor: int | None) -> int:
    """Return which process a descriptor stands for, whoever passed it: the kernel says so.

    Raises: ValueError if it isn't a process descriptor.
    """
    if descriptor is None:
        raise ValueError("a process without a descriptor")
    for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "Pid":
            return int(value)
    raise ValueError("a descriptor that isn't a process")
