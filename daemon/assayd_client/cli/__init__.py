"""Implements `assay`, the daemon's client for people and scripts.

Modules are imported only when a command needs them.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache

_GC_THRESHOLD = 50_000
"""Number of new objects that start a garbage collection; most commands create fewer."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    A known error is printed as one line on standard error.
    """
    gc.set_threshold(_GC_THRESHOLD)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that can't show a character shows a question mark
            stream.reconfigure(errors="replace")
    try:
        code = _run_and_report_errors(list(sys.argv[1:] if arguments is None else arguments))
        # Without this, the interpreter notices a closed pipe only while it exits, and complains.
        print(end="", flush=True)
    except BrokenPipeError:
        return _discard_output()
    return code


def _run_and_report_errors(arguments: list[str]) -> int:
    from assayd.errors import AssaydError

    try:
        return _run_command(move_address_options(arguments))
    except AssaydError as error:
        from assayd_client.cli.options import exit_code
        from assayd_client.cli.terminal import plain

        print(f"assay: {plain(error.message)}", file=sys.stderr)
        return exit_code(error)
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("assayd"):
            raise
        from assayd_client.cli.options import REFUSED

        print(
            "assay: this command requires the daemon package, but only the client is installed; install "
            "the package assayd",
            file=sys.stderr,
        )
        return REFUSED
    except PermissionError as error:
        from assayd_client.cli.options import REFUSED
        from assayd_client.cli.terminal import plain

        print(f"assay: {plain(str(error.filename))}: {error.strerror}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        from assayd_client.cli.options import INTERRUPTED

        return INTERRUPTED


def _discard_output() -> int:
    """Discard further output after the reader has closed the pipe, and return the exit code.

    Otherwise, the interpreter would flush both streams on exit and report an error for the closed pipe.
    """
    from assayd_client.cli.options import EXIT_BROKEN_PIPE

    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    return EXIT_BROKEN_PIPE


def _run_command(arguments: list[str]) -> int:
    try:
        _load_commands()(arguments, prog_name="assay")
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # which click turns into exit code 1
            raise end.__context__ from None
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


@cache
def _load_commands() -> Callable[..., object]:
    """Build all commands. The result is cached, because building is slow."""
    from typer.main import get_command

    from assayd_client.cli.app import app

    return get_command(app)


def move_address_options(arguments: list[str]) -> list[str]:
    """Move the options for the daemon's address to the front of the command line.

    This allows users to write them at any position.
    """
    from assayd_client.cli.app import ADDRESS_OPTIONS

    first: list[str] = []
    rest: list[str] = []
    waiting = list(arguments)
    while waiting and waiting[0] != "--":
        word = waiting.pop(0)
        option, equals, _ = word.partition("=")
        own = option == "--token-file" and rest[:1] == ["mcp"]  # the token of the agents that connect to it
        if option not in ADDRESS_OPTIONS or own or not (equals or waiting):
            rest.append(word)
        else:
            first += [word] if equals else [word, waiting.pop(0)]
    return [*first, *rest, *waiting]
