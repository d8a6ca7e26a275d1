"""Runs one program of the operator and ensures that all of its processes end with the call.

The module is started with `python -I -S`, so it uses only the standard library and imports nothing from
assayd. It adopts orphaned processes of the program (including children in other sessions), limits the size
of every written file, and removes the right to inspect other processes, such as the daemon and its
environment.

    contain.py REPORT_FD FILE_BYTES PROGRAM [ARGUMENT…]

The module writes ``ended STATUS`` to REPORT_FD, or ``failed ERRNO`` if the program can't be started.
"""

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER = 1, 24, 36
_MEMORY_READ_CAPS = (19, 21, 38)
"""CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON: each lets root read another process's memory (`mm_access`)."""


class _StopRequested(Exception):
    """An exception raised if the daemon has exited or terminates the program."""


def main() -> int:
    """Run the program, and report its exit status after all of its processes have ended."""
    report, file_bytes, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    os.set_inheritable(report, False)
    _restrict_process(file_bytes)
    signal.signal(signal.SIGTERM, _raise_stop_requested)
    told = "ended -15"
    try:
        child = _start_program(argv)
        told = f"ended {_wait_for_exit(child)}"
    except OSError as problem:
        told = f"failed {problem.errno}"
    except _StopRequested:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _kill_descendants()
    os.write(report, told.encode("ascii"))
    return 0


def _restrict_process(file_bytes: int) -> None:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) or prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    for capability in _MEMORY_READ_CAPS:  # only root has them and may drop them
        prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _raise_stop_requested(number: int, frame: object) -> None:
    raise _StopRequested


def _start_program(argv: "list[str]") -> int:
    """Start the program and return its PID. Raises: OSError with an `errno`, if the start fails."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for number in (signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(argv[0], argv)  # noqa: S606 - no shell is meant
        except OSError as problem:
            os.write(theirs, str(problem.errno).encode("ascii"))
        finally:
            os._exit(127)
    os.close(theirs)
    errno = os.read(ours, 16)
    os.close(ours)
    if errno:
        raise OSError(int(errno), "exec")
    return child


def _wait_for_exit(child: int) -> int:
    """Wait until the program ends and return its status, while reaping other processes that end."""
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def _kill_descendants() -> None:
    """Kill all descendants, including orphans, which become children of this process."""
    while True:
        for pid in _list_child_pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            os.wait()
        except ChildProcessError:
            return


def _list_child_pids() -> "list[int]":
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):  # it ended meanwhile
            continue
        if parent == os.getpid():
            found.append(int(stat.parent.name))
    return found


if __name__ == "__main__":
    sys.exit(main())
