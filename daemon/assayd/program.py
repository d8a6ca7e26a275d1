"""Shared by the long-running programs: imports, one line for an error, and an exit code for its sort."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from assayd.errors import AssaydError, ConfigError


def exit_code(program: str, run: Callable[[], int]) -> int:
    """Run a program; return its exit code: 2 if settings are wrong, 3 for all that may pass by itself."""
    try:
        return run()
    except ConfigError as error:
        print(f"{program}: {error.message}", file=sys.stderr)
        return 3 if error.retryable else 2
    except AssaydError as error:
        print(f"{program}: {error.code}: {error.message}", file=sys.stderr)
        return 3


@contextmanager
def importing() -> Iterator[None]:
    """Let the body import a program without Python's collector, which would take a fifth of the time.

    The collector ignores all objects from before the end of the body.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
