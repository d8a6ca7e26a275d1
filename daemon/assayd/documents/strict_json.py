"""JSON as it should be: one reader that refuses what `json.loads` lets pass, one canonical writer."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import NoReturn

from pydantic import BaseModel

from assayd.errors import RequestError
from assayd.model.submission import JsonValue

MAX_DEPTH = 64
"""How deep arrays and objects may be nested."""
MAX_NUMBER_CHARS = 400
"""How long a number may be written: more than any double or sensible integer needs."""
MAX_CONTAINERS = 200_000
"""Arrays and objects of one text: an empty one takes three bytes there, and 64 or more once it is read."""
MAX_VALUES = 200_000
"""Values of one text, counted by the commas between them. Reading more would keep others waiting."""

_SCALARS = frozenset({int, float, bool, type(None)})
_PIECE = 20_000
"""About how many values and parts of texts are written at once: what is written holds many times its text."""
_AT_ONCE = 1000
_TEXT_CHARS = 2**18

_STRING = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
"""A string, also one that never ends. No part of the text is looked at twice."""


def _members(document: object) -> dict[str, object]:
    if isinstance(document, BaseModel):
        return vars(document)
    raise TypeError(f"{type(document).__name__} is not JSON")


_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_members
)
_COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_members)


def read_json(text: bytes, *, most_values: int = MAX_VALUES) -> JsonValue:
    """Read one JSON text strictly.

    Refused, beside what no parser takes: invalid UTF-8, a byte order mark, duplicate keys, NaN and
    infinities (an overflowing number included), lone surrogates, nesting deeper than `MAX_DEPTH`.

    Raises:
        RequestError: ``malformed``, with the position or the key at fault; ``too_large`` for more than
            `MAX_CONTAINERS` or `most_values`, before anything is read.
    """
    refuse_many(text, most_values=most_values)
    try:
        value: JsonValue = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_float,
            parse_int=_int,
        )
    except UnicodeDecodeError as error:
        raise _malformed(f"the text is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise _malformed(f"{error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise _malformed(f"nested deeper than {MAX_DEPTH} levels") from error
    _inspect(value)
    return value


def read_bytes(text: bytes) -> int:
    """Return about how much memory a text takes once it is read, beside the text."""
    return len(text) + 64 * _containers(text) + 32 * text.count(b",")


def canonical(value: object) -> bytes:
    """Write JSON canonically: sorted keys, no spaces, UTF-8.

    What a request holds comes through exactly. Text of a guest may hold lone surrogates, which UTF-8
    cannot express: each becomes a question mark.
    """
    written = BytesIO()
    _write(value, written)
    return written.getvalue()


def compact(value: object) -> bytes:
    """Write JSON in the order that it is in, which is the contract's: for answers that people read."""
    return _COMPACT.encode(value).encode("utf-8", "replace")


def with_texts(document: BaseModel, texts: Mapping[str, bytes]) -> bytes:
    """Write a document as `compact` does, with some members that are JSON text already."""
    parts: list[bytes] = []
    others: dict[str, object] = {}
    for name, value in (*vars(document).items(), ("", None)):
        text = texts.get(name)
        if others and (text is not None or not name):
            parts.append(compact(others)[1:-1])
            others = {}
        if text is not None:
            parts.append(b'"%b":%b' % (name.encode(), text))
        else:
            others[name] = value
    return b"{" + b",".join(parts) + b"}"


def _write(value: object, to: BytesIO) -> None:
    """Write JSON canonically, what is large piece by piece."""
    if isinstance(value, BaseModel):
        value = vars(value)
    if _weight(value) < _PIECE:
        to.write(_encoded(value))
    elif isinstance(value, str):
        to.write(b'"')
        to.writelines(
            _encoded(value[at : at + _TEXT_CHARS])[1:-1] for at in range(0, len(value), _TEXT_CHARS)
        )
        to.write(b'"')
    elif isinstance(value, dict) and all(isinstance(name, str) for name in value):
        _write_object(value, to)
    elif isinstance(value, list | tuple):
        _write_array(value, to)
    else:
        to.write(_encoded(value))


def _write_object(members: dict[str, object], to: BytesIO) -> None:
    between, names = b"{", sorted(members)
    for at in range(0, len(names), _AT_ONCE):
        group = {name: members[name] for name in names[at : at + _AT_ONCE]}
        if _weight(group) < _PIECE:
            to.write(between + _encoded(group)[1:-1])
            between = b","
            continue
        for name, member in group.items():
            to.write(between + _encoded(name) + b":")
            between = b","
            _write(member, to)
    to.write(b"}")


def _write_array(members: Sequence[object], to: BytesIO) -> None:
    between = b"["
    for at in range(0, len(members), _AT_ONCE):
        group = members[at : at + _AT_ONCE]
        if _weight(group) < _PIECE:
            to.write(between + _encoded(group)[1:-1])
            between = b","
            continue
        for member in group:
            to.write(between)
            between = b","
            _write(member, to)
    to.write(b"]")


def _encoded(value: object) -> bytes:
    return _CANONICAL.encode(value).encode("utf-8", "replace")


def _weight(value: object) -> int:
    """Return about how much there is to write, up to a piece."""
    weight, waiting = 1, [value]
    for each in waiting:  # it grows while it is walked through
        if type(each) in _SCALARS:
            continue
        if isinstance(each, str):
            weight += len(each) // 16
        elif isinstance(each, BaseModel):
            waiting.append(vars(each))
        elif isinstance(each, dict | list | tuple):
            weight += len(each)
            if weight < _PIECE:  # what is as long as that is not looked into
                weight += sum(map(len, map(str, each))) // 16 if isinstance(each, dict) else 0
                waiting.extend(each.values() if isinstance(each, dict) else each)
        if weight >= _PIECE:
            break
    return weight


def digest(text: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(text).hexdigest()


def refuse_many(text: bytes, *, most_values: int = MAX_VALUES) -> None:
    """Count what a text holds before memory is taken for it; what stands in strings does not count.

    Raises: RequestError ``too_large``.
    """
    if _containers(text) <= MAX_CONTAINERS and text.count(b",") < most_values:
        return
    bare = _STRING.sub(b"", text)
    if (containers := _containers(bare)) > MAX_CONTAINERS:
        found = f"the text holds {containers} arrays and objects; at most {MAX_CONTAINERS} may be"
        raise RequestError("too_large", f"{found}. Send less, or nest it less")
    if (values := bare.count(b",") + 1) > most_values:
        message = f"the text holds {values} values; at most {most_values} may be. Send less"
        raise RequestError("too_large", message)


def _containers(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _malformed(f"the key {key[:64]!r} is given twice", field=key[:64])
            seen.add(key)
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise _malformed(f"{name} is not a JSON number")


def _float(text: str) -> float:
    number = float(_short(text))
    if math.isinf(number):
        raise _malformed("a number is too large")
    return number


def _int(text: str) -> int:
    return int(_short(text))


def _short(text: str) -> str:
    if len(text) > MAX_NUMBER_CHARS:
        raise _malformed(f"a number is longer than {MAX_NUMBER_CHARS} characters")
    return text


def _inspect(value: JsonValue) -> None:
    """Walk without recursion: depth and surrogates are known only after the text is read."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        if not level:
            return
        level = [child for container in level for child in _children(container)]
    raise _malformed(f"nested deeper than {MAX_DEPTH} levels")


def _children(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, str):
        _refuse_surrogates(value)
    elif isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        for key in value:
            _refuse_surrogates(key)
        yield from value.values()


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        shown = text[max(0, error.start - 20) : error.start]
        raise _malformed(f"a string holds a lone surrogate after {shown!r}") from error


def _malformed(message: str, *, field: str | None = None) -> RequestError:
    return RequestError("malformed", message, field=field)
