"""Runs a program that reads hostile text on standard input, within limits on time and output.

The program inherits the limits of the analysis worker (memory, files to write) and gets its own limit on
processor time. Decides nothing about what the output means.
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
    """How long a program may run, and how much of its output is read."""

    cpu_s: int
    wall_s: float
    output_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramAnswer:
    """The exit status, negative for a signal, and the output with standard error in it."""

    status: int
    output: bytes


def ask(
    command: Sequence[str], text: bytes, *, limits: ProgramLimits, environment: Mapping[str, str]
) -> ProgramAnswer:
    """Send a text to a program and return the answer; `output` is longer than the limit if that was met.

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
        _allow_cpu(process.pid, limits.cpu_s)
        return _converse(process, text, limits)


def _allow_cpu(pid: int, seconds: int) -> None:
    """Have the kernel end a process after so much processor time; it counts from its own start."""
    with suppress(ProcessLookupError):
        hard = resource.prlimit(pid, resource.RLIMIT_CPU)[1]
        resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, hard))


def _converse(process: subprocess.Popen[bytes], text: bytes, limits: ProgramLimits) -> ProgramAnswer:
    stdin, stdout = process.stdin, process.stdout
    if stdin is None or stdout is None:
        raise AssaydError("analysis.no_pipes", "a program that reads bash has no pipes")
    watchdog = threading.Timer(limits.wall_s, process.kill)
    watchdog.start()
    try:
        output = _exchange(stdin, stdout, text, limits.output_bytes)
        if len(output) > limits.output_bytes:
            process.kill()
        status = process.wait()
    finally:
        watchdog.cancel()
        process.kill()
    return ProgramAnswer(status=status, output=output)


def _exchange(stdin: IO[bytes], stdout: IO[bytes], text: bytes, most: int) -> bytes:
    """Send the text, which the program reads to its end before it answers, and read the answer."""
    try:
        stdin.write(text)
        stdin.close()
    except BrokenPipeError:
        pass  # the program died; its status says so
    return stdout.read(most + 1)
