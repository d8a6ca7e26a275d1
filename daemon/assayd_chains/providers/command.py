"""Runs an operator's program as a provider that reads a request and prints a reply.

The program reads a JSON object from its standard input. The object has these fields: `kind`, `attempt`,
`intent`, `findings`, `prompt` {`system`, `user`} and `passage` {`name`, `language`, `text`}. The reply on
the standard output has the format of a model's reply. The program can call any local model.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import structlog

from assayd.aio import run_cleanup
from assayd.errors import ProviderError
from assayd_chains.provider import FixRequest, Reply
from assayd_chains.providers.reading import TEXT, parse_in_subprocess

log = structlog.get_logger()

KEPT_ENVIRONMENT = ("PATH", "HOME", "LANG")
FILE_BYTES = 16 * 2**20
"""Maximum size of any file that the program writes, including its standard output."""
MAX_STDERR_BYTES = 2000
"""Maximum number of bytes to log from the end of standard error."""
_REAP_WAIT_S = 5.0
_CONTAIN_SCRIPT = str(Path(__file__).with_name("contain.py"))


class CommandProvider:
    """A provider that runs an operator's program. Implements `provider.Provider`.

    Args:
        argv: the program and its arguments; they aren't interpreted by a shell.
        environment: environment variables in addition to PATH, HOME and LANG.
    """

    def __init__(self, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._argv = tuple(argv)
        self._environment = dict(environment or {})

    async def fix(self, request: FixRequest, *, timeout_s: float) -> Reply:
        """Run the program once and return its reply.

        Raises: ProviderError ``provider.command`` if the program can't be started, times out or fails;
        ``provider.reply`` if the program doesn't print a valid reply.
        """
        printed = await run(
            self._argv, _encode_request(request), timeout_s=timeout_s, environment=self._environment
        )
        passage = request.passage
        found = await parse_in_subprocess(TEXT, printed, passage.language, passage.beginning)
        return found.build_reply()


async def run(
    argv: Sequence[str], stdin: bytes, *, timeout_s: float, environment: Mapping[str, str]
) -> bytes:
    """Run an operator's program, and return its standard output.

    `contain.py` runs the program and kills all processes that it leaves behind. Standard input and output are
    files, not pipes, so that a full pipe can't block the program or the daemon.

    Raises: ProviderError ``provider.command``, if the program can't be started, times out or fails.
    """
    kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as printed,
        tempfile.TemporaryFile() as complaints,
        tempfile.TemporaryFile() as report,
    ):
        given.write(stdin)
        given.seek(0)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", _CONTAIN_SCRIPT, str(report.fileno()), str(FILE_BYTES), *argv),
            stdin=given,
            stdout=printed,
            stderr=complaints,
            env={**kept, **environment},
            pass_fds=(report.fileno(),),
            start_new_session=True,
        )
        try:
            await asyncio.wait_for(process.wait(), timeout_s)
        except TimeoutError as late:
            raise _build_provider_failed_error(
                f"{argv[0]} took longer than {timeout_s:.0f} s", retryable=True
            ) from late
        finally:
            await run_cleanup(_terminate_process_tree(process), timeout_s=2 * _REAP_WAIT_S)
            _log_stderr(argv[0], complaints)
        report.seek(0)
        large = os.fstat(printed.fileno()).st_size >= FILE_BYTES
        _require_successful_exit(argv[0], report.read(), large=large)
        printed.seek(0)
        return printed.read()


def _log_stderr(program: str, complaints: IO[bytes]) -> None:
    """Log the end of the standard error output of an operator's program."""
    size = os.fstat(complaints.fileno()).st_size
    if size == 0:
        return
    complaints.seek(max(size - MAX_STDERR_BYTES, 0))
    said = complaints.read().decode("utf-8", "replace")
    clean = "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in said)
    log.warning("provider.stderr", program=program, bytes=size, said=clean.strip())


def _require_successful_exit(program: str, report: bytes, *, large: bool) -> None:
    """Raise ProviderError ``provider.command`` unless the program exited successfully."""
    what, _, number = report.decode("ascii").partition(" ")
    if what == "failed":
        raise _build_provider_failed_error(f"{program} can't be started: {os.strerror(int(number))}")
    if what != "ended":
        raise _build_provider_failed_error(
            f"{program} was lost together with its parent process", retryable=True
        )
    if large or int(number) == -signal.SIGXFSZ:
        raise _build_provider_failed_error(
            f"{program} wrote a file of more than {FILE_BYTES} bytes", retryable=True
        )
    if int(number) != 0:
        raise _build_provider_failed_error(f"{program} ended with {number}", retryable=True)


async def _terminate_process_tree(process: Process) -> None:
    """Terminate the program and its children or, if this fails, kill the process that runs the program."""
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _REAP_WAIT_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _encode_request(request: FixRequest) -> bytes:
    passage = request.passage
    return json.dumps(
        {
            "kind": request.kind,
            "attempt": request.attempt,
            "intent": request.intent,
            "findings": list(request.findings),
            "prompt": {"system": request.system, "user": request.user},
            "system": request.system,
            "user": request.user,
            "passage": {"name": passage.name, "language": passage.language, "text": passage.text},
        }
    ).encode()


def _build_provider_failed_error(message: str, *, retryable: bool = False) -> ProviderError:
    return ProviderError("provider.command", message, retryable=retryable)
