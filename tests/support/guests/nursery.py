"""Forks guest runners from a process that has imported them already: a start costs milliseconds.

The process is as bare as a container's (`-I -S`), and each runner is a fresh fork of it.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import assayd

_PROGRAM = """
import gc, json, os, socket, sys
sys.path.insert(0, {root!r})
from assayd.guest.programs import PROGRAMS, load_programs
from assayd.guest.runner import main

load_programs(PROGRAMS)
gc.collect()
gc.freeze()
orders = socket.socket(fileno={orders})

def become(order, given):
    orders.close()
    for target, descriptor in enumerate(given):
        os.dup2(descriptor, target)
        os.close(descriptor)
    sys.path += order["libraries"]
    exec(order["patch"], {{}})
    main(order["work"])

while True:
    asked, given, _, _ = socket.recv_fds(orders, 65536, 2)
    if not asked:
        break
    order = json.loads(asked)
    if "wait" in order:
        answer = os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])
    else:
        answer = os.fork()
        if not answer:
            become(order, given)
        for descriptor in given:
            os.close(descriptor)
    orders.send(json.dumps(answer).encode())
"""


class Fork:
    """A runner's process, with the interface of `subprocess.Popen`."""

    def __init__(self, nursery: Nursery, pid: int, stdin: int, stdout: int) -> None:
        self._nursery = nursery
        self._ended = os.pidfd_open(pid)
        self._status: int | None = None
        self.pid = pid
        self.stdin = os.fdopen(stdin, "wb", buffering=0)
        self.stdout = os.fdopen(stdout, "rb", buffering=0)

    def wait(self, timeout_s: float) -> int:
        """Return the exit status, like `Popen.returncode`. Raises: TimeoutError."""
        if self._status is None:
            if not select.select([self._ended], [], [], timeout_s)[0]:
                raise TimeoutError(f"the runner did not end within {timeout_s} s")
            self._status = self._nursery.ask({"wait": self.pid})
        return self._status

    def end(self, timeout_s: float) -> None:
        """Close the runner's input, and check that it ends by itself. Raises: TimeoutError."""
        self.stdin.close()
        try:
            self.wait(timeout_s)
        except TimeoutError:
            os.kill(self.pid, 9)
            raise
        finally:
            self.stdout.close()
            os.close(self._ended)


class Nursery:
    """The process that runners are forked from."""

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            root = str(Path(assayd.__file__).parents[1])
            program = _PROGRAM.format(root=root, orders=theirs.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", program], pass_fds=[theirs.fileno()]
            )
        atexit.register(self.close)

    def start(self, work: Path, *libraries: str, patch: str = "") -> Fork:
        """Fork a runner in a work directory; `libraries` are folders to import from."""
        to_read, stdin = os.pipe()
        stdout, to_write = os.pipe()
        try:
            order = {"work": str(work), "libraries": libraries, "patch": patch}
            return Fork(self, self.ask(order, to_read, to_write), stdin, stdout)
        finally:
            os.close(to_read)
            os.close(to_write)

    def ask(self, order: Mapping[str, object], *given: int) -> int:
        """Send a request with descriptors; return the answer."""
        socket.send_fds(self._orders, [json.dumps(order).encode()], given)
        return int(json.loads(self._orders.recv(65536)))

    def close(self) -> None:
        """End the process; running runners see the end of their input."""
        self._orders.close()
        self._process.wait()


@cache
def nursery() -> Nursery:
    """Return the nursery of this test run."""
    return Nursery()
