"""Prevents a unit's process from calling ``os._exit``, so that it can't exit before it sends its record.

Of the functions that Python code can call, only this one ends a process at once with exit code 0. Any other
exit is visible in the wait status (a signal) or runs our final steps (the end of the program). Processes
forked by the unit can exit in any way.
"""

from __future__ import annotations

import os
import posix
from os import getpid
from sys import _getframe

from . import private
from .builtins_safe import make_opaque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .frames_above import FrameClassifier
    from .reporter import Reporter

private.isolate_builtins(globals())

_leave = os._exit


def block_os_exit(places: FrameClassifier, reporter: Reporter) -> None:
    """Replace ``os._exit``, in this process only, with a function that refuses and reports the call."""
    ours = getpid()

    def refuse(status: int) -> NoReturn:
        if getpid() != ours:
            _leave(status)
        place = places.locate(_getframe(1))
        reporter.event("os._exit", "os._exit", allowed=False, enforced=True, file=place.file, line=place.line)
        raise PermissionError("os._exit is not allowed by the policy: let the code end by itself")

    os._exit = posix._exit = make_opaque(refuse)
