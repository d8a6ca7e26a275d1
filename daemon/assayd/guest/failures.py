"""Creates records of guest code's exceptions: type, message, lines, their values, and similar names.

Only values of exact built-in types, paths and times are shown, limited to their beginning, and only names
of attributes and keys that are plain strings are compared, so that no code of a guest's class is run. The
record is controlled by the guest.
"""

from __future__ import annotations

import sys

from . import builtin_names
from .near import find_nearest
from .values import is_real_subclass, type_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date, datetime, time, timedelta, timezone
    from types import CodeType, FrameType, TracebackType

    from .reporter import Record

    Texts = Mapping[str, "ShownText"]
    """Submitted texts by the file name that they were compiled under; only their frames are shown."""
else:
    from _datetime import date, datetime, time, timedelta, timezone

builtin_names.isolate_builtins(globals())

_MAX_LINE_NAMES = 5
_MAX_VALUE_CHARS = 160
_MAX_ITEMS = 8
_MAX_RENDER_DEPTH = 2
_MAX_INTEGER_BITS = 128
_MAX_SORTED_ITEMS = 50
_TEXT_CHARS = 60
_BRACKETS_BY_TYPE: dict[type, str] = {list: "[]", tuple: "()", set: "{}", frozenset: "{}"}
_PATH_TYPE_NAMES = ("PurePosixPath", "PureWindowsPath", "PosixPath", "PurePath")


def find_failing_line(problem: BaseException, texts: Texts) -> tuple[FrameType, str] | None:
    """Return the last frame of a submitted text through which an exception passed, and the line in it.

    Return None if the exception passed through no submitted text, or if the line doesn't exist.
    """
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
    """Return the words of a line that can be names and consist of ASCII characters."""
    plain = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter == "_") else " " for letter in line
    )
    return (word for word in plain.split() if not word[0].isdigit())


def render_line_values(problem: BaseException, texts: Texts) -> dict[str, str]:
    """Return the values of the names in the failing line, if they can be displayed.

    Return an empty dict if the line is unknown, or if code of a guest's class fails.
    """
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
                found[name] = text if len(text) <= _MAX_VALUE_CHARS else f"{text[: _MAX_VALUE_CHARS - 1]}…"
            if len(found) >= _MAX_LINE_NAMES:
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
        return repr(value) if bits <= _MAX_INTEGER_BITS else f"an int of {bits} bits"
    if kind is str or kind is bytes:
        text: str | bytes = value  # type: ignore[assignment]  # as above
        return repr(text[:_TEXT_CHARS]) + "…" * (len(text) > _TEXT_CHARS)
    if kind is dict or kind in _BRACKETS_BY_TYPE:
        return _render_items(value, kind, depth)
    return _render_special(value, kind)


def _render_items(value: object, kind: type, depth: int) -> str:
    """Return the first items of a container as text, up to two levels deep."""
    brackets = _BRACKETS_BY_TYPE.get(kind, "{}")
    if depth >= _MAX_RENDER_DEPTH:
        return f"{brackets[0]}…{brackets[1]}" if value else brackets
    if kind is dict:
        known: dict[object, object] = value  # type: ignore[assignment]  # it is one by its exact type
        pairs = list(dict.items(known))[:_MAX_ITEMS]
        parts = [f"{_render_inner(key, depth)}: {_render_inner(item, depth)}" for key, item in pairs]
    else:
        items = list(value)  # type: ignore[call-overload]  # it is one of the four
        parts = [_render_inner(item, depth) for item in items[:_MAX_SORTED_ITEMS]]
        parts = (sorted(parts) if brackets == "{}" else parts)[:_MAX_ITEMS]
    count = len(value)  # type: ignore[arg-type]  # as above
    more = f", … {count} in all" if count > len(parts) else ""
    return f"{brackets[0]}{', '.join(parts)}{more}{brackets[1]}"


def _render_inner(value: object, depth: int) -> str:
    return _render_value(value, depth + 1) or f"<{type.__dict__['__name__'].__get__(type(value))}>"


def _render_special(value: object, kind: type) -> str | None:
    """Render times, paths and generators that never ran. Return None for other values."""
    if kind is date or kind is timedelta:
        return str(value)
    if kind is datetime or kind is time:
        zone = value.tzinfo  # type: ignore[attr-defined]  # it is one of both
        return str(value) if zone is None or type(zone) is timezone else None
    if kind.__name__ in {"generator", "coroutine"} and kind.__module__ == "builtins":
        return f"a {kind.__name__}"
    paths = sys.modules.get("pathlib")
    if paths is not None and any(kind is vars(paths).get(name) for name in _PATH_TYPE_NAMES):
        return f"{kind.__name__}({str(value)[:_TEXT_CHARS]!r})"
    return None


_MAX_DICTS = 20
_MAX_KEYS = 1000
_namespace = type.__dict__["__dict__"].__get__
_ModuleType = type(sys)
_IMPORT_ERROR_PARTS = ("cannot import name ", " from ")
"""The text before and between the quoted names in an ImportError's message."""
_MAX_IMPORT_NAME_CHARS = 80


def find_similar_name(problem: BaseException, texts: Texts) -> tuple[str, bool] | None:
    """Return the most similar name, and whether it is certain, or None if no name is similar."""
    try:
        if is_real_subclass(problem, AttributeError):
            name, value = problem.name, problem.obj
            return (
                find_nearest(name, _iter_attribute_names(value))
                if type(name) is str and value is not None
                else None
            )
        if is_real_subclass(problem, KeyError):
            key = BaseException.__dict__["args"].__get__(problem)[0]
            if type(key) is str and (inside := _find_nested_key(key, problem, texts)) is not None:
                return inside, False
            keys = list(_iter_visible_keys(problem, texts)) if type(key) is str else []
            return (find_nearest(key, keys) or _find_key_with_affix(key, keys)) if keys else None
        if is_real_subclass(problem, ImportError):
            name, origin = _parse_import_error(str(problem))
            module = sys.modules.get(origin)
            return find_nearest(name, _iter_attribute_names(module)) if name and module is not None else None
    except BaseException:  # noqa: BLE001 - code of guest classes may have a part in it
        return None
    return None


def _find_nested_key(key: str, problem: BaseException, texts: Texts) -> str | None:
    """Return the path of a key in a nested dict on the failing line, e.g. ``raw['data']['items']``.

    Return None if no such dict contains the key.
    """
    place = find_failing_line(problem, texts)
    if place is None:
        return None
    frame, line = place
    for name in dict.fromkeys(iter_names(line)):
        value = frame.f_locals.get(name, frame.f_globals.get(name))
        for outer, inner in list(dict.items(value))[:_MAX_DICTS] if type(value) is dict else ():
            if type(outer) is str and type(inner) is dict and dict.__contains__(inner, key):
                return f"{name}[{outer!r}][{key!r}]"[:_MAX_KEY_PATH_CHARS]
    return None


_MAX_KEY_PATH_CHARS = 60


def _find_key_with_affix(key: str, keys: list[str]) -> tuple[str, bool] | None:
    """Return the only key that begins or ends with this one, e.g. ``amount_eur`` for ``amount``, or None."""
    found = {one for one in keys if len(key) > 2 and (one.startswith(f"{key}_") or one.endswith(f"_{key}"))}
    return (found.pop(), False) if len(found) == 1 else None


def _parse_import_error(message: str) -> tuple[str, str]:
    """Parse ``cannot import name 'a' from 'b'``. Return empty strings for other messages."""
    before, name, between, origin, *_ = [*message.split("'"), "", "", "", ""]
    fits = (before, between) == _IMPORT_ERROR_PARTS and max(len(name), len(origin)) <= _MAX_IMPORT_NAME_CHARS
    return (name, origin) if fits else ("", "")


def _iter_attribute_names(value: object) -> Iterator[str]:
    if is_real_subclass(value, _ModuleType):
        yield from (name for name in dict.keys(vars(value)) if type(name) is str and name[:1] != "_")
        return
    kinds = value if is_real_subclass(value, type) else type(value)
    for kind in type.__dict__["__mro__"].__get__(kinds):
        yield from (name for name in _namespace(kind) if type(name) is str and name[:2] != "__")
    fields = (
        None
        if is_real_subclass(value, type)
        else object.__getattribute__(value, "__dict__")
        if _has_fields(value)
        else None
    )
    if type(fields) is dict:
        yield from (name for name in dict.keys(fields) if type(name) is str)


def _has_fields(value: object) -> bool:
    try:
        object.__getattribute__(value, "__dict__")
    except AttributeError:
        return False
    return True


def _iter_visible_keys(problem: BaseException, texts: Texts) -> Iterator[str]:
    """Yield the keys of the dicts whose names occur in the failing line."""
    place = find_failing_line(problem, texts)
    if place is None:
        return
    found, line = place
    named = dict.fromkeys(iter_names(line))
    values = [space[name] for name in named for space in (found.f_locals, found.f_globals) if name in space]
    seen = 0
    for value in values:
        for one in _iter_dicts(value):
            seen += 1
            if seen > _MAX_DICTS:
                return
            yield from _iter_string_keys(one)


def _iter_dicts(value: object, depth: int = 0) -> Iterator[Mapping[object, object]]:
    """Yield a dict, and the dicts in a dict, list, tuple or object, up to two levels deep."""
    if is_real_subclass(value, dict):
        yield value
        inner = list(dict.values(value))[:_MAX_DICTS] if dict.__len__(value) <= _MAX_KEYS else []
    elif is_real_subclass(value, list) or is_real_subclass(value, tuple):
        inner = list(value)[:3] if type(value) in (list, tuple) else []
    else:
        fields = object.__getattribute__(value, "__dict__") if _has_fields(value) and depth == 0 else None
        inner = list(dict.values(fields))[:_MAX_DICTS] if type(fields) is dict else []
    if depth < 2:
        for one in inner:
            yield from _iter_dicts(one, depth + 1)


def _iter_string_keys(one: Mapping[object, object]) -> Iterator[str]:
    if is_real_subclass(one, dict) and dict.__len__(one) <= _MAX_KEYS:
        yield from (key for key in dict.keys(one) if type(key) is str)


class ShownText:
    """A submitted text with its file name in exceptions and tracebacks."""

    __slots__ = ("name", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text


__all__ = [
    "ShownText",
    "clean_text",
    "get_exception_message",
    "build_compile_error_record",
    "build_exception_record",
    "told",
]

_MAX_MESSAGE_CHARS = 4096
_MAX_FRAMES = 20
_MAX_QUOTED_CHARS = 400


def build_exception_record(problem: BaseException, *, filename: str, source: str, phase: str) -> Record:
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
        "message": get_exception_message(problem),
        "file": None if code is None else texts[code.co_filename].name,
        "line": line,
        "traceback": _format_traceback(problem, places, texts),
        "where": None if code is None else clean_text(code.co_name),
    }


def build_compile_error_record(problem: BaseException) -> Record:
    """Return the record of a compiler error. Line and column are counted from 1, or None if unknown."""
    syntax = problem if isinstance(problem, SyntaxError) else None
    return {
        "status": "not_compiled",
        "error_type": type_name(problem),
        "message": get_exception_message(problem) if syntax is None else clean_text(syntax.msg),
        "line": None if syntax is None else syntax.lineno,
        "column": None if syntax is None else syntax.offset,
    }


def get_exception_message(problem: BaseException) -> str:
    """Return the exception's text, or a substitute if code of its class fails."""
    try:
        text = str(problem)
    except BaseException as second:  # noqa: BLE001 - guest code, which may raise whatever it likes
        return f"<message not available: {type_name(second)}>"
    return clean_text(text)


def clean_text(text: str) -> str:
    """Return the text, truncated and reduced to characters that JSON can represent."""
    return str.__str__(text)[:_MAX_MESSAGE_CHARS].encode("utf-8", "backslashreplace").decode()


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
    last = f"{type_name(problem)}: {get_exception_message(problem)}".removesuffix(": ")
    return "\n".join(["Traceback (most recent call last):", *shown, last])


def _format_frame(line: int, code: CodeType, name: str, lines: list[str]) -> str:
    text = lines[line - 1].strip()[:_MAX_QUOTED_CHARS] if 0 < line <= len(lines) else ""
    place = f'  File "{name}", line {line}, in {code.co_name}'
    return clean_text(f"{place}\n    {text}" if text else place)
