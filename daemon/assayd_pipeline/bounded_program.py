"""Runs a program on hostile text, which it reads from standard input, and limits its time and output.

The program inherits the limits of the analysis worker (memory, written files) and has a separate limit on
processor time. Callers interpret the output.
"""

from __future__ import annotations

import resource
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from assayd.errors import AssaydError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramLimits:
    """The limits that apply to a program's time and output."""

    cpu_s: int
    wall_s: float
    output_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramAnswer:
    """The exit status of a program (negative for a signal), and its output with standard error."""

    status: int
    output: bytes


def ask(
    command: Sequence[str], text: bytes, *, limits: ProgramLimits, environment: Mapping[str, str]
) -> ProgramAnswer:
    """Send text to a program and return its answer; if `output` is longer than the limit, it is truncated.

    Raises: OSError, if the program can't be started.
    """
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        cwd="/",
    )
    with process:
        _limit_cpu_time(process.pid, limits.cpu_s)
        return _run_with_limits(process, text, limits)


def _limit_cpu_time(pid: int, seconds: int) -> None:
    """Set a kernel limit on a process's processor time, measured from the start of the process."""
    with suppress(ProcessLookupError):
        hard = resource.prlimit(pid, resource.RLIMIT_CPU)[1]
        resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, hard))


def _run_with_limits(process: subprocess.Popen[bytes], text: bytes, limits: ProgramLimits) -> ProgramAnswer:
    stdin, stdout = process.stdin, process.stdout
    if stdin is None or stdout is None:
        raise AssaydError("analysis.no_pipes", "a program that reads bash has no pipes")
    watchdog = threading.Timer(limits.wall_s, process.kill)
    watchdog.start()
    try:
        output = _send_and_receive(stdin, stdout, text, limits.output_bytes)
        if len(output) > limits.output_bytes:
            process.kill()
        status = process.wait()
    finally:
        watchdog.cancel()
        process.kill()
    return ProgramAnswer(status=status, output=output)


def _send_and_receive(stdin: IO[bytes], stdout: IO[bytes], text: bytes, most: int) -> bytes:
    """Send the text, which the program reads completely before it answers, and read the answer."""
    try:
        stdin.write(text)
        stdin.close()
    except BrokenPipeError:
        pass  # The program died, as its status shows.
    return stdout.read(most + 1)
