"""The parent of analysis workers: a process that has imported all kinds and forks a worker on request.

This module runs in the parent process. The parent reads only the daemon's requests, never submissions. Its
workers have no access to the socket that carries these requests. Workers share the memory of the imported
modules and start in milliseconds.

    daemon ──fork + the worker's stream──> parent
           <─{"pid"} + pidfd──
           <─{"pid", "status"}, once the worker has exited
"""

from __future__ import annotations

import json
import os
import select
import socket
import traceback
from collections.abc import Callable
from typing import NoReturn

REQUEST = b"fork"
MESSAGE_BYTES = 1024
_BROKEN = 1


def fork_on_request(control: socket.socket, work: Callable[[], None]) -> None:
    """Fork a worker for each received stream and report each worker's exit, until the daemon has exited.

    Args:
        control: the socket to the daemon.
        work: the function that a worker runs, with its stream as standard input and output.
    """
    workers: dict[int, int] = {}
    waiting = select.poll()
    waiting.register(control, select.POLLIN)
    while True:
        for ready, _ in waiting.poll():
            if ready != control.fileno():
                waiting.unregister(ready)
                _, status = os.waitpid(workers.pop(ready), 0)
                _send_message(control, {"fd": ready, "status": os.waitstatus_to_exitcode(status)})
                os.close(ready)
                continue
            request, streams, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
            if request != REQUEST or len(streams) != 1:
                return
            pid, worker = _fork(streams[0], work)
            workers[worker] = pid
            waiting.register(worker, select.POLLIN)
            _send_message(control, {"fd": worker}, worker)


def _fork(stream: int, work: Callable[[], None]) -> tuple[int, int]:
    """Fork a worker, and return its PID and a descriptor that becomes readable when the worker exits."""
    pid = os.fork()
    if not pid:
        _run_child(stream, work)
    os.close(stream)
    return pid, os.pidfd_open(pid)


def _run_child(stream: int, work: Callable[[], None]) -> NoReturn:
    """Run the function in the forked child, then exit. Never return to the parent's code."""
    status = _BROKEN
    try:
        for target in (0, 1):
            os.dup2(stream, target)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        work()
        status = 0
    finally:
        if status:
            traceback.print_exc()
        os._exit(status)


def _send_message(control: socket.socket, said: dict[str, int], *descriptors: int) -> None:
    socket.send_fds(control, [json.dumps(said).encode()], list(descriptors))
