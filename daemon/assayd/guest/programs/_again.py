"""Runs submitted code again once its result is known. Further results affect only warnings.

The record contains the result and the further results. The event `check` is sent before the first further
run. If a unit fails after this event, the check caused the failure, and the daemon runs the unit again
without a check.
"""

from __future__ import annotations

import sys
from signal import ITIMER_REAL, setitimer
from time import process_time

from .. import builtin_names
from ..values import render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..reporter import Reporter
    from ..values import Rendered

    Try = Callable[[], object]
    Form = Callable[[object], Rendered]

builtin_names.isolate_builtins(globals())

_MAX_CPU_S = 0.02
"""CPU seconds after which no further run begins. Code that took longer isn't run again at all."""
_KILL_TIMEOUT_S = 1.0
"""Seconds after which a hanging run ends the process. The unit then runs again without a check."""
_MAX_RESULT_CHARS = 4096


class _NullStream:
    """A stream that discards its text."""

    def write(self, text: object) -> int:
        return 0

    def flush(self) -> None:
        return


def repeat_calls(
    first: object, spent_s: float, tries: Iterable[Try], reporter: Reporter, form: Form = render
) -> list[object]:
    """Return the results of further calls as JSON; None for a call that raised or whose result is too large.

    The list is empty if the judged call took too long, or if its result is too large.

    Args:
        first: the judged result, as JSON.
        spent_s: the CPU time of the judged call, in seconds.
        tries: the further calls, which are run in sequence.
        reporter: the reporter to which the check is reported.
        form: a function that converts a result to JSON.
    """
    if spent_s > _MAX_CPU_S or len(repr(first)) > _MAX_RESULT_CHARS:
        return []
    reporter.event("check", "", allowed=True, enforced=False)
    streams = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = _NullStream()
    until, found = process_time() + _MAX_CPU_S, []
    setitimer(ITIMER_REAL, _KILL_TIMEOUT_S)
    left = iter(tries)
    while process_time() < until and (each := _get_next_try(left)) is not None:
        found.append(_run_try(each, form))
    setitimer(ITIMER_REAL, 0)
    sys.stdout, sys.stderr = streams
    return found


def _get_next_try(left: Iterator[Try]) -> Try | None:
    try:
        return next(left, None)
    except BaseException:  # noqa: BLE001 - guest code prepares the tries: it is imported anew
        return None


def _run_try(each: Try, form: Form) -> object:
    try:
        value = form(each()).value
    except BaseException:  # noqa: BLE001 - guest code, which may raise whatever it likes
        return None
    return value if len(repr(value)) <= _MAX_RESULT_CHARS else None
