"""An exception of guest code as a record: type, message, the submitted lines that it came through."""

from __future__ import annotations

from types import CodeType, TracebackType

from . import private
from .reporter import Record
from .values import type_name

private.isolate(globals())

_MAX_MESSAGE = 4096
_MAX_FRAMES = 20
_MAX_LINE = 400


def raised(problem: BaseException, *, filename: str, source: str, phase: str) -> Record:
    """Give the record of an exception that guest code let through.

    Args:
        problem: the exception.
        filename: what the submitted text was compiled under; only its frames are shown.
        source: the submitted text.
        phase: ``import`` or ``call``.
    """
    places = _places(problem.__traceback__, filename)
    line, code = places[-1] if places else (None, None)
    return {
        "status": "raised",
        "error_type": type_name(problem),
        "message": message_of(problem),
        "line": line,
        "traceback": _traceback(problem, places, filename, source),
        "where": _clean(code.co_name) if code is not None else None,
        "phase": phase,
    }


def not_compiled(problem: BaseException) -> Record:
    """Give the record of a text that the compiler refused."""
    syntax = problem if isinstance(problem, SyntaxError) else None
    return {
        "status": "not_compiled",
        "error_type": type_name(problem),
        "message": message_of(problem) if syntax is None else _clean(syntax.msg),
        "line": None if syntax is None else syntax.lineno,
        "column": None if syntax is None else syntax.offset,
    }


def message_of(problem: BaseException) -> str:
    """Give the exception's text; its class may do anything to prevent that."""
    try:
        text = str(problem)
    except BaseException as second:  # noqa: BLE001 - guest code, which may raise whatever it likes
        return f"<message not available: {type_name(second)}>"
    return _clean(text)


def _clean(text: str) -> str:
    return str.__str__(text)[:_MAX_MESSAGE].encode("utf-8", "backslashreplace").decode()


def _places(traceback: TracebackType | None, filename: str) -> list[tuple[int, CodeType]]:
    places = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename == filename:
            places.append((traceback.tb_lineno, code))
        traceback = traceback.tb_next
    return places


def _traceback(problem: BaseException, places: list[tuple[int, CodeType]], filename: str, source: str) -> str:
    lines = source.split("\n")
    shown = [_frame_text(line, code, filename, lines) for line, code in places]
    if len(shown) > _MAX_FRAMES:
        half = _MAX_FRAMES // 2
        shown[half:-half] = [f"  [… {len(shown) - _MAX_FRAMES} frames left out …]"]
    last = f"{type_name(problem)}: {message_of(problem)}".removesuffix(": ")
    return "\n".join(["Traceback (most recent call last):", *shown, last])


def _frame_text(line: int, code: CodeType, filename: str, lines: list[str]) -> str:
    text = lines[line - 1].strip()[:_MAX_LINE] if 0 < line <= len(lines) else ""
    place = f'  File "{filename}", line {line}, in {code.co_name}'
    return _clean(f"{place}\n    {text}" if text else place)
