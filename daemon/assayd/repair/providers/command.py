"""The provider that is a program of the operator: a request on its standard input, a reply on its output.

The request is one JSON object {"system", "user", "passage": {"name", "language", "text"}}; the reply is what
a model would write. Any local model can be put behind it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress

from assayd.errors import ProviderError
from assayd.ports.llm import Reply, Request
from assayd.repair.reply import MAX_REPLY_CHARS, read_reply

KEPT_ENVIRONMENT = ("PATH", "HOME", "LANG")
_REAP_S = 5.0


class CommandProvider:
    """Implements `ports.llm.Provider`.

    Args:
        argv: the program and its arguments; no shell looks at them.
        environment: what it gets beside PATH, HOME and LANG.
    """

    def __init__(self, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._argv = tuple(argv)
        self._environment = dict(environment or {})

    async def fix(self, request: Request, *, timeout_s: float) -> Reply:
        """Run the program once.

        Raises: ProviderError ``provider.command`` when it cannot be started, takes too long or fails;
            ``provider.reply`` when it prints no reply.
        """
        printed = await run(
            self._argv, _document(request), timeout_s=timeout_s, environment=self._environment
        )
        patch = read_reply(printed.decode("utf-8", "replace"))
        return Reply(code=patch.code, reason=patch.reason)


async def run(
    argv: Sequence[str], stdin: bytes, *, timeout_s: float, environment: Mapping[str, str]
) -> bytes:
    """Run a program of the operator in a session of its own and give what it prints.

    Whatever it has started is ended with it. Raises: ProviderError ``provider.command``.
    """
    kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={**kept, **environment},
            start_new_session=True,
        )
    except OSError as problem:
        raise _failed(f"{argv[0]} cannot be started: {problem.strerror}") from problem
    try:
        async with asyncio.timeout(timeout_s):
            printed = await _converse(process, stdin)
            status = await process.wait()
    except TimeoutError as late:
        raise _failed(f"{argv[0]} took longer than {timeout_s:.0f} s", retryable=True) from late
    finally:
        await _end(process)
    if status != 0:
        raise _failed(f"{argv[0]} ended with {status}", retryable=True)
    return printed


async def _converse(process: Process, stdin: bytes) -> bytes:
    """Feed and read at once: a program may print before it has read everything."""
    feeding = asyncio.ensure_future(_feed(process, stdin))
    try:
        return await _read(process)
    finally:
        feeding.cancel()
        await asyncio.wait({feeding})


async def _feed(process: Process, stdin: bytes) -> None:
    assert process.stdin is not None  # noqa: S101 - it was asked for
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _read(process: Process) -> bytes:
    assert process.stdout is not None  # noqa: S101 - it was asked for
    printed = bytearray()
    while part := await process.stdout.read(2**16):
        printed += part
        if len(printed) > MAX_REPLY_CHARS:
            raise _failed(f"it printed more than {MAX_REPLY_CHARS} bytes")
    return bytes(printed)


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # What it printed is read to the end, so that nothing of the pipe is left open.
    with suppress(TimeoutError):
        await asyncio.wait_for(process.communicate(), _REAP_S)


def _document(request: Request) -> bytes:
    passage = request.passage
    return json.dumps(
        {
            "system": request.system,
            "user": request.user,
            "passage": {"name": passage.name, "language": passage.language, "text": passage.text},
        }
    ).encode()


def _failed(message: str, *, retryable: bool = False) -> ProviderError:
    return ProviderError("provider.command", message, retryable=retryable)
