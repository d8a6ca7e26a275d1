"""The provider that is a program of the operator: a request on its standard input, a reply on its output.

The request is one JSON object {"system", "user", "passage": {"name", "language", "text"}}; the reply is what
a model would write. Any local model can be put behind it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress

from assayd.errors import ProviderError
from assayd.ports.llm import Reply, Request
from assayd.repairs.reply import MAX_REPLY_CHARS, read_reply

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

    Whatever it has started is ended with it. It reads and prints files, not pipes: neither side can wait for
    the other then. Raises: ProviderError ``provider.command``.
    """
    kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed:
        given.write(stdin)
        given.seek(0)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=given,
                stdout=printed,
                stderr=DEVNULL,
                env={**kept, **environment},
                start_new_session=True,
            )
        except OSError as problem:
            raise _failed(f"{argv[0]} cannot be started: {problem.strerror}") from problem
        try:
            status = await asyncio.wait_for(process.wait(), timeout_s)
        except TimeoutError as late:
            raise _failed(f"{argv[0]} took longer than {timeout_s:.0f} s", retryable=True) from late
        finally:
            await _end(process)
        if status != 0:
            raise _failed(f"{argv[0]} ended with {status}", retryable=True)
        printed.seek(0)
        return printed.read(MAX_REPLY_CHARS + 1)


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _REAP_S)


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
