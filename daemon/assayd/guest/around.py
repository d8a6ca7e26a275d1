"""Records the values of the names in a failing line, which an exception's text doesn't contain.

Only values of exact built-in types, paths and times are shown, limited to their beginning, so that no code
of a guest's class is run. The values are part of the exception's record, which the guest controls.
"""

from __future__ import annotations

import sys

from . import private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date, datetime, time, timedelta, timezone
    from types import FrameType

    from .shown import Texts
else:
    from _datetime import date, datetime, time, timedelta, timezone

private.isolate_builtins(globals())

_MOST_NAMES = 5
_MOST_CHARS = 160
_MOST_ITEMS = 8
_MOST_DEPTH = 2
_MOST_BITS = 128
_MOST_SORTED = 50
_TEXT_CHARS = 60
_BRACKETS: dict[type, str] = {list: "[]", tuple: "()", set: "{}", frozenset: "{}"}
_PATHS = ("PurePosixPath", "PureWindowsPath", "PosixPath", "PurePath")


def find_failing_line(problem: BaseException, texts: Texts) -> tuple[FrameType, str] | None:
    """Return the last frame of a submitted text through which an exception passed, and the line in it."""
    found: tuple[FrameType, int] | None = None
    traceback = problem.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename in texts:
            found = traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next
    if found is None:
        return None
    frame, number = found
    lines = texts[frame.f_code.co_filename].text.split("\n")
    return (frame, lines[number - 1]) if 0 < number <= len(lines) else None


def iter_names(line: str) -> Iterator[str]:
    """Return the words of a line that can be names consisting of ASCII characters."""
    plain = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter == "_") else " " for letter in line
    )
    return (word for word in plain.split() if not word[0].isdigit())


def render_line_values(problem: BaseException, texts: Texts) -> dict[str, str]:
    """Return the values of the names in the failing line, if they can be displayed."""
    found: dict[str, str] = {}
    try:
        place = find_failing_line(problem, texts)
        if place is None:
            return found
        frame, line = place
        for name in dict.fromkeys(iter_names(line)):
            space = next((one for one in (frame.f_locals, frame.f_globals) if name in one), None)
            text = None if space is None or name[:2] == "__" else _render_value(space[name], 0)
            if text is not None:
                found[name] = text if len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 1]}…"
            if len(found) >= _MOST_NAMES:
                break
    except BaseException:  # noqa: BLE001 - code of guest classes may have a part in it
        return {}
    return found


def _render_value(value: object, depth: int) -> str | None:
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return repr(value)
    if kind is int:
        bits = int.bit_length(value)  # type: ignore[arg-type]  # it is an int by its exact type
        return repr(value) if bits <= _MOST_BITS else f"an int of {bits} bits"
    if kind is str or kind is bytes:
        text: str | bytes = value  # type: ignore[assignment]  # as above
        return repr(text[:_TEXT_CHARS]) + "…" * (len(text) > _TEXT_CHARS)
    if kind is dict or kind in _BRACKETS:
        return _render_items(value, kind, depth)
    return _render_special(value, kind)


def _render_items(value: object, kind: type, depth: int) -> str:
    """Return the first items of a container as text, up to two levels deep."""
    brackets = _BRACKETS.get(kind, "{}")
    if depth >= _MOST_DEPTH:
        return f"{brackets[0]}…{brackets[1]}" if value else brackets
    if kind is dict:
        known: dict[object, object] = value  # type: ignore[assignment]  # it is one by its exact type
        pairs = list(dict.items(known))[:_MOST_ITEMS]
        parts = [f"{_render_inner(key, depth)}: {_render_inner(item, depth)}" for key, item in pairs]
    else:
        items = list(value)  # type: ignore[call-overload]  # it is one of the four
        parts = [_render_inner(item, depth) for item in items[:_MOST_SORTED]]
        parts = (sorted(parts) if brackets == "{}" else parts)[:_MOST_ITEMS]
    count = len(value)  # type: ignore[arg-type]  # as above
    more = f", … {count} in all" if count > len(parts) else ""
    return f"{brackets[0]}{', '.join(parts)}{more}{brackets[1]}"


def _render_inner(value: object, depth: int) -> str:
    return _render_value(value, depth + 1) or f"<{type.__dict__['__name__'].__get__(type(value))}>"


def _render_special(value: object, kind: type) -> str | None:
    """Render times, paths and generators that never ran; return None for other values."""
    if kind is date or kind is timedelta:
        return str(value)
    if kind is datetime or kind is time:
        zone = value.tzinfo  # type: ignore[attr-defined]  # it is one of both
        return str(value) if zone is None or type(zone) is timezone else None
    if kind.__name__ in {"generator", "coroutine"} and kind.__module__ == "builtins":
        return f"a {kind.__name__}"
    paths = sys.modules.get("pathlib")
    if paths is not None and any(kind is vars(paths).get(name) for name in _PATHS):
        return f"{kind.__name__}({str(value)[:_TEXT_CHARS]!r})"
    return None
