"""Creates records of guest code's exceptions: type, message, and the submitted lines that raised them."""

from __future__ import annotations

from . import private
from .around import render_line_values
from .misspelt import find_similar_name
from .shown import ShownText
from .values import type_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, TracebackType

    from .reporter import Record
    from .shown import Texts

private.isolate_builtins(globals())

__all__ = ["ShownText", "clean_text", "exception_message", "record_compile_error", "record_exception", "told"]

_MAX_MESSAGE = 4096
_MAX_FRAMES = 20
_MAX_LINE = 400


def record_exception(problem: BaseException, *, filename: str, source: str, phase: str) -> Record:
    """Return the record of an uncaught exception when only one text was submitted.

    Args:
        problem: the exception.
        filename: the name under which the text was compiled and is shown.
        source: the submitted text.
        phase: ``import`` or ``call``.
    """
    return {"status": "raised", **told(problem, {filename: ShownText(filename, source)}), "phase": phase}


def told(problem: BaseException, texts: Texts) -> Record:
    """Return the record of an exception: type, message, and the lines of submitted texts that it passed."""
    places = _list_traceback_places(problem.__traceback__, texts)
    line, code = places[-1] if places else (None, None)
    meant, values = find_similar_name(problem, texts), render_line_values(problem, texts)
    return {
        **({"values": {name: clean_text(text) for name, text in values.items()}} if values else {}),
        **({} if meant is None else {"meant": meant[0], "certain": meant[1]}),
        "error_type": type_name(problem),
        "message": exception_message(problem),
        "file": None if code is None else texts[code.co_filename].name,
        "line": line,
        "traceback": _format_traceback(problem, places, texts),
        "where": None if code is None else clean_text(code.co_name),
    }


def record_compile_error(problem: BaseException) -> Record:
    """Return the record of a compiler error; line and column are counted from 1, or None if unknown."""
    syntax = problem if isinstance(problem, SyntaxError) else None
    return {
        "status": "not_compiled",
        "error_type": type_name(problem),
        "message": exception_message(problem) if syntax is None else clean_text(syntax.msg),
        "line": None if syntax is None else syntax.lineno,
        "column": None if syntax is None else syntax.offset,
    }


def exception_message(problem: BaseException) -> str:
    """Return the exception's text, or a substitute if code of its class fails."""
    try:
        text = str(problem)
    except BaseException as second:  # noqa: BLE001 - guest code, which may raise whatever it likes
        return f"<message not available: {type_name(second)}>"
    return clean_text(text)


def clean_text(text: str) -> str:
    """Return the text, truncated and reduced to characters that JSON can represent."""
    return str.__str__(text)[:_MAX_MESSAGE].encode("utf-8", "backslashreplace").decode()


def _list_traceback_places(traceback: TracebackType | None, texts: Texts) -> list[tuple[int, CodeType]]:
    places = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename in texts:
            places.append((traceback.tb_lineno, code))
        traceback = traceback.tb_next
    return places


def _format_traceback(problem: BaseException, places: list[tuple[int, CodeType]], texts: Texts) -> str:
    lines = {filename: shown.text.split("\n") for filename, shown in texts.items()}
    shown = [
        _format_frame(line, code, texts[code.co_filename].name, lines[code.co_filename])
        for line, code in places
    ]
    if len(shown) > _MAX_FRAMES:
        half = _MAX_FRAMES // 2
        shown[half:-half] = [f"  [… {len(shown) - _MAX_FRAMES} frames omitted …]"]
    last = f"{type_name(problem)}: {exception_message(problem)}".removesuffix(": ")
    return "\n".join(["Traceback (most recent call last):", *shown, last])


def _format_frame(line: int, code: CodeType, name: str, lines: list[str]) -> str:
    text = lines[line - 1].strip()[:_MAX_LINE] if 0 < line <= len(lines) else ""
    place = f'  File "{name}", line {line}, in {code.co_name}'
    return clean_text(f"{place}\n    {text}" if text else place)
