"""`assay validate --watch`: validates at every save of the files, and shows the newest report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from assayd.errors import AssaydError, RequestError
from assayd_client.cli.exits import VALIDATED, exit_code
from assayd_client.cli.terminal import err, plain

LOOK_EVERY_S = 0.25
CLEAR = "\x1b[H\x1b[2J\x1b[3J"

Signature = tuple[tuple[str, int, int, int], ...]


def watch(
    validate: Callable[[], int],
    paths: Sequence[Path],
    *,
    clear: bool,
    wait: Callable[[float], None] = time.sleep,
) -> int:
    """Validate now and after every change of the files, until an interrupt; return the last exit code.

    Raises: RequestError ``usage``, when there is nothing that can be watched.
    """
    if not paths or Path("-") in paths:
        raise RequestError("usage", "--watch takes files or folders; standard input cannot be watched")
    code, seen = VALIDATED, None
    try:
        while True:
            now = signature(paths)
            if now in {seen, ()}:  # unchanged, or gone for a moment, as while an editor saves
                wait(LOOK_EVERY_S)
                continue
            seen = now
            code = _once(validate, clear=clear)
            if clear:
                err().print(f"{time.strftime('%H:%M:%S')}, waiting for the next save; an interrupt ends it")
    except KeyboardInterrupt:
        return code


def signature(paths: Sequence[Path]) -> Signature:
    """Return what tells one state of the files from another; nothing when one of them is not there."""
    try:
        return tuple(sorted(_states(paths)))
    except FileNotFoundError:
        return ()


def _states(paths: Sequence[Path]) -> Iterator[tuple[str, int, int, int]]:
    for path in paths:
        for each in sorted(path.rglob("*")) if path.is_dir() else (path,):
            state = each.stat()
            yield str(each), state.st_mtime_ns, state.st_size, state.st_ino


def _once(validate: Callable[[], int], *, clear: bool) -> int:
    """Validate; what cannot be submitted now is said, and may be right after the next save."""
    if clear:
        sys.stdout.write(CLEAR)
        sys.stdout.flush()
    try:
        code = validate()
    except AssaydError as error:
        print(f"assay: {plain(error.message)}", file=sys.stderr)
        code = exit_code(error)
    return code
