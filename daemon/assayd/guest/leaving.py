"""Keeps a unit's process from ending before it has said all: ``os._exit`` is refused to it.

Of what Python code can call, this alone ends a process at once with exit code 0. What is left (a signal, the
end of the program) is seen by wait, or leads through our own last steps. Processes that the unit forks may
end as they like.
"""

from __future__ import annotations

import os
import posix
from os import getpid
from sys import _getframe

from . import private
from .builtins_safe import opaque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .frames_above import FrameClassifier
    from .reporter import Reporter

private.isolate(globals())

_leave = os._exit


def refuse_to_leave(places: FrameClassifier, reporter: Reporter) -> None:
    """Put a refusal in the place of ``os._exit``, for this process only; the act is reported."""
    ours = getpid()

    def refuse(status: int) -> NoReturn:
        if getpid() != ours:
            _leave(status)
        place = places.locate(_getframe(1))
        reporter.event("os._exit", "os._exit", allowed=False, enforced=True, file=place.file, line=place.line)
        raise PermissionError("os._exit is not allowed by the policy: let the code end by itself")

    os._exit = posix._exit = opaque(refuse)
