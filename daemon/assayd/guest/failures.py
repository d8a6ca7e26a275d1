"""Creates records of guest code's exceptions: type, message, and the submitted lines that raised them."""

from __future__ import annotations

from . import private
from .around import values_at
from .misspelt import similar_name
from .shown import ShownText
from .values import type_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, TracebackType

    from .reporter import Record
    from .shown import Texts

private.isolate(globals())

__all__ = ["ShownText", "clean", "message_of", "not_compiled", "raised", "told"]

_MAX_MESSAGE = 4096
_MAX_FRAMES = 20
_MAX_LINE = 400


def raised(problem: BaseException, *, filename: str, source: str, phase: str) -> Record:
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
    places = _traceback_places(problem.__traceback__, texts)
    line, code = places[-1] if places else (None, None)
    meant, values = similar_name(problem, texts), values_at(problem, texts)
    return {
        **({"values": {name: clean(text) for name, text in values.items()}} if values else {}),
        **({} if meant is None else {"meant": meant[0], "certain": meant[1]}),
        "error_type": type_name(problem),
        "message": message_of(problem),
        "file": None if code is None else texts[code.co_filename].name,
        "line": line,
        "traceback": _format_traceback(problem, places, texts),
        "where": None if code is None else clean(code.co_name),
    }


def not_compiled(problem: BaseException) -> Record:
    """Return the record of a compiler error; line and column are counted from 1, or None if unknown."""
    syntax = problem if isinstance(problem, SyntaxError) else None
    return {
        "status": "not_compiled",
        "error_type": type_name(problem),
        "message": message_of(problem) if syntax is None else clean(syntax.msg),
        "line": None if syntax is None else syntax.lineno,
        "column": None if syntax is None else syntax.offset,
    }


def message_of(problem: BaseException) -> str:
    """Return the exception's text, or a substitute if code of its class fails."""
    try:
        text = str(problem)
    except BaseException as second:  # noqa: BLE001 - guest code, which may raise whatever it likes
        return f"<message not available: {type_name(second)}>"
    return clean(text)


def clean(text: str) -> str:
    """Return the text, truncated and reduced to characters that JSON can represent."""
    return str.__str__(text)[:_MAX_MESSAGE].encode("utf-8", "backslashreplace").decode()


def _traceback_places(traceback: TracebackType | None, texts: Texts) -> list[tuple[int, CodeType]]:
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
    last = f"{type_name(problem)}: {message_of(problem)}".removesuffix(": ")
    return "\n".join(["Traceback (most recent call last):", *shown, last])


def _format_frame(line: int, code: CodeType, name: str, lines: list[str]) -> str:
    text = lines[line - 1].strip()[:_MAX_LINE] if 0 < line <= len(lines) else ""
    place = f'  File "{name}", line {line}, in {code.co_name}'
    return clean(f"{place}\n    {text}" if text else place)
