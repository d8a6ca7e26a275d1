"""Calls a function with each of many arguments in one process, e.g. approved code with many paths.

A call can see the effects of earlier calls in the same unit. An exception ends only the call that raised
it.
"""

from __future__ import annotations

from .. import private
from ..failures import ShownText, told
from ..values import render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..reporter import Record
    from ._text import SubmittedText

private.isolate_builtins(globals())

_MESSAGE_CHARS = 400
_TOLD = ("error_type", "line")


def run_each_call(
    function: Callable[..., object], calls: Sequence[Sequence[object]], text: SubmittedText
) -> list[Record]:
    """Return the result of each call in order: a value with its type, or an exception."""
    return [_run_call(function, args, text) for args in calls]


def _run_call(function: Callable[..., object], args: Sequence[object], text: SubmittedText) -> Record:
    try:
        value = function(*args)
    except BaseException as problem:  # noqa: BLE001 - guest code, which may raise whatever it likes
        raised = told(problem, {text.filename: ShownText(text.filename, text.source)})
        return {**{name: raised[name] for name in _TOLD}, "message": str(raised["message"])[:_MESSAGE_CHARS]}
    found = render(value)
    return {"value": found.value, "value_type": found.value_type}
