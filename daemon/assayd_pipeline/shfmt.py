"""Runs shfmt, which decides what is bash and gives the tree that the rules walk.

One process per text, a few milliseconds. It inherits the limits of the analysis worker (memory, processor
time, no files to write), and what it prints is read up to a cap: a tree grows with the square of its depth.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

from assayd.errors import AssaydError
from assayd_pipeline.shell.parse.reader import Reading

TREE_BYTES = 64 * 2**20
"""A tree has about ninety bytes for each byte of an ordinary script."""
WALL_S = 10.0
CPU_S = 5

_COMPLAINT = re.compile(rb"(?:<standard input>:)?(?P<line>\d+):(?P<column>\d+): (?P<message>[^\n]*)")
_ENVIRONMENT = {"GOMAXPROCS": "1", "GOTRACEBACK": "none"}


def read_shell(text: str) -> Reading:
    """Read a text that is valid UTF-8.

    Raises: AssaydError ``analysis.no_shfmt`` when the program is not installed.
    """
    try:
        process = subprocess.Popen(
            [_program(), "--language-dialect=bash", "--to-json"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_ENVIRONMENT,
            cwd="/",
        )
    except OSError as problem:
        raise AssaydError("analysis.no_shfmt", f"shfmt cannot be run: {problem.strerror}") from problem
    with process:
        _allow_cpu(process.pid, CPU_S)
        return _converse(process, text.encode())


def _allow_cpu(pid: int, seconds: int) -> None:
    """Have the kernel end a process after so much processor time; it counts from its own start."""
    with suppress(ProcessLookupError):
        hard = resource.prlimit(pid, resource.RLIMIT_CPU)[1]
        resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, hard))


def _converse(process: subprocess.Popen[bytes], text: bytes) -> Reading:
    stdin, stdout = process.stdin, process.stdout
    if stdin is None or stdout is None:
        raise AssaydError("analysis.no_shfmt", "shfmt has no pipes")
    watchdog = threading.Timer(WALL_S, process.kill)
    watchdog.start()
    try:
        said = _exchange(stdin, stdout, text)
        if len(said) > TREE_BYTES:
            process.kill()
        status = process.wait()
    finally:
        watchdog.cancel()
        process.kill()
    if status == 0 and len(said) <= TREE_BYTES:
        return Reading(tree=said)
    found = _COMPLAINT.match(said) if status > 0 else None
    if found is None:
        return Reading(message="it is too large or too deeply nested to be read")
    message = found["message"].decode("utf-8", "replace")
    return Reading(message=message, line=int(found["line"]), column=int(found["column"]))


def _exchange(stdin: IO[bytes], stdout: IO[bytes], text: bytes) -> bytes:
    """Hand the text over, which shfmt reads to its end before it says anything, and take the answer."""
    try:
        stdin.write(text)
        stdin.close()
    except BrokenPipeError:
        pass  # it died; its status says so
    return stdout.read(TREE_BYTES + 1)


@cache
def _program() -> str:
    """Find the program of the package shfmt-py, else the one on PATH."""
    folders = (Path(sys.executable).parent, Path(sysconfig.get_path("scripts")))
    beside = (str(folder / "shfmt") for folder in folders if (folder / "shfmt").is_file())
    found = next(beside, None) or shutil.which("shfmt")
    if found is None:
        raise AssaydError("analysis.no_shfmt", "shfmt is not installed: pip install shfmt-py")
    return found
