"""Runs the programs that read bash: shfmt returns the syntax tree, and ShellCheck explains mistakes.

A program reads hostile text from standard input. It inherits the limits of the analysis worker (memory,
written files), and has separate limits on processor time and output, because the size of a tree grows with
the square of its depth. ShellCheck's limits are stricter, because only hints depend on its answer.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from assayd.errors import AssaydError
from assayd_pipeline.shell.parse.linter import LinterComment
from assayd_pipeline.shell.parse.reader import ParseResult


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


TREE_BYTES = 64 * 2**20
"""Maximum bytes of a tree, which has about ninety bytes for each byte of an ordinary script."""
WALL_S = 10.0
CPU_S = 5
_SHFMT_LIMITS = ProgramLimits(cpu_s=CPU_S, wall_s=WALL_S, output_bytes=TREE_BYTES)

_COMPLAINT = re.compile(rb"(?:<standard input>:)?(?P<line>\d+):(?P<column>\d+): (?P<message>[^\n]*)")
_SHFMT_ENVIRONMENT = {"GOMAXPROCS": "1", "GOTRACEBACK": "none"}


def read_shell(text: str) -> ParseResult:
    """Parse a valid UTF-8 text.

    Raises: AssaydError ``analysis.no_shfmt``, if the program isn't installed.
    """
    command = (_find_shfmt(), "--language-dialect=bash", "--to-json")
    try:
        answer = ask(command, text.encode(), limits=_SHFMT_LIMITS, environment=_SHFMT_ENVIRONMENT)
    except OSError as problem:
        raise AssaydError("analysis.no_shfmt", f"shfmt can't be run: {problem.strerror}") from problem
    if answer.status == 0 and len(answer.output) <= TREE_BYTES:
        return ParseResult(tree=answer.output)
    found = _COMPLAINT.match(answer.output) if answer.status > 0 else None
    if found is None:
        return ParseResult(message="it is too large or too deeply nested to read")
    message = found["message"].decode("utf-8", "replace")
    return ParseResult(message=message, line=int(found["line"]), column=int(found["column"]))


@cache
def _find_shfmt() -> str:
    """Return the path of shfmt from the package shfmt-py or from PATH. Raises: AssaydError."""
    folders = (Path(sys.executable).parent, Path(sysconfig.get_path("scripts")))
    beside = (str(folder / "shfmt") for folder in folders if (folder / "shfmt").is_file())
    found = next(beside, None) or shutil.which("shfmt")
    if found is None:
        raise AssaydError("analysis.no_shfmt", "shfmt isn't installed; run: pip install shfmt-py")
    return found


TEXT_BYTES = 64 * 2**10
"""Maximum bytes of a script to explain; ShellCheck's time grows faster than the script."""
_MOST_COMMENTS = 200
_SHELLCHECK_LIMITS = ProgramLimits(cpu_s=1, wall_s=2.0, output_bytes=2**20)
# GHC's runtime reserves address space by itself; the cap keeps it below the worker's limit.
_SHELLCHECK_ENVIRONMENT = {"LANG": "C.UTF-8", "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent"}
_FOUND_SOMETHING = (0, 1)
"""The exit codes for a script that was read; others mean that ShellCheck failed."""


@cache
def find_shellcheck() -> str | None:
    """Return the path of ShellCheck; None if ShellCheck isn't installed."""
    return shutil.which("shellcheck", path="/usr/bin:/usr/local/bin:/bin")


def lint_shell(text: str) -> tuple[LinterComment, ...]:
    """Return ShellCheck's comments on a script; empty if it isn't installed or the script is too large."""
    found, content = find_shellcheck(), text.encode("utf-8", "replace")
    if found is None or len(content) > TEXT_BYTES:
        return ()
    command = (found, "--norc", "--shell=bash", "--format=json1", "-")
    try:
        answer = ask(command, content, limits=_SHELLCHECK_LIMITS, environment=_SHELLCHECK_ENVIRONMENT)
    except OSError:
        return ()  # removed or replaced since it was found: hints are optional
    if answer.status not in _FOUND_SOMETHING or len(answer.output) > _SHELLCHECK_LIMITS.output_bytes:
        return ()
    return _parse_comments(answer.output)


def _parse_comments(output: bytes) -> tuple[LinterComment, ...]:
    """Parse the comments; return an empty tuple if one of them lacks a required field."""
    try:
        told = json.loads(output).get("comments", [])
        return tuple(
            LinterComment(
                code=int(each["code"]),
                line=int(each["line"]),
                column=int(each["column"]),
                end_line=int(each["endLine"]),
                end_column=int(each["endColumn"]),
            )
            for each in told[:_MOST_COMMENTS]
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()  # another version's form: hints are optional
