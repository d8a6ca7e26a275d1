"""Reads JSON strictly and within limits: the one reader for requests and for what containers write.

Decides form only. Refused, besides what no parser accepts: invalid UTF-8, a byte order mark, duplicate keys,
NaN and infinities (an overflowing number included), lone surrogates, and whatever exceeds a limit.

    b'{"a": 1, "a": 2}'   JsonError: the key 'a' is given twice
    b'[NaN]'              JsonError: NaN is not a JSON number
    b'[[[[…'              JsonError: nested deeper than 64 levels
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from assayd.model.submission import JsonValue

_STRING = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
"""A string, also one that never ends. No part of the text is looked at twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLimits:
    """How much one text may hold.

    Values are counted by the commas between them. Arrays and objects are counted apart: an empty one takes
    three bytes in the text, and 64 or more once it is read.
    """

    bytes: int | None = None
    depth: int
    containers: int
    values: int
    number_chars: int
    string_chars: int | None = None
    key_chars: int | None = None


class JsonError(ValueError):
    """Bytes that are not acceptable JSON; the message says why. `field` is the key at fault, if one is."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class JsonTooLargeError(JsonError):
    """A text holds more than its limits allow. Raised before the text is parsed."""


def read_strictly(text: bytes, limits: JsonLimits) -> JsonValue:
    """Read one JSON text. Raises: JsonError, with the position or the key at fault."""
    refuse_large(text, limits)

    def short(number: str) -> str:
        if len(number) > limits.number_chars:
            raise JsonError(f"a number is longer than {limits.number_chars} characters")
        return number

    try:
        value: JsonValue = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=lambda number: _finite(short(number)),
            parse_int=lambda number: int(short(number)),
        )
    except UnicodeDecodeError as error:
        raise JsonError(f"the text is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise JsonError(f"{error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise JsonError(f"nested deeper than {limits.depth} levels") from error
    _inspect(value, limits)
    return value


def refuse_large(text: bytes, limits: JsonLimits) -> None:
    """Count what a text holds before memory is taken for it; what is inside strings doesn't count.

    Raises: JsonTooLargeError.
    """
    if limits.bytes is not None and len(text) > limits.bytes:
        raise JsonTooLargeError(f"the text is larger than {limits.bytes} bytes")
    if count_containers(text) <= limits.containers and text.count(b",") < limits.values:
        return
    bare = _STRING.sub(b"", text)
    if (containers := count_containers(bare)) > limits.containers:
        found = f"the text holds {containers} arrays and objects; at most {limits.containers} may be"
        raise JsonTooLargeError(f"{found}. Send less, or nest it less")
    if (values := bare.count(b",") + 1) > limits.values:
        message = f"the text holds {values} values; at most {limits.values} may be. Send less"
        raise JsonTooLargeError(message)


def count_containers(text: bytes) -> int:
    """Return how many arrays and objects a text can hold at most."""
    return text.count(b"[") + text.count(b"{")


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise JsonError(f"the key {key[:64]!r} is given twice", field=key[:64])
            seen.add(key)
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise JsonError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise JsonError("a number is too large")
    return number


def _inspect(value: JsonValue, limits: JsonLimits) -> None:
    """Walk without recursion: depth and surrogates are known only after the text is read."""
    level = [value]
    for _ in range(limits.depth + 1):
        if not level:
            return
        level = [child for container in level for child in _children(container, limits)]
    raise JsonError(f"nested deeper than {limits.depth} levels")


def _children(value: JsonValue, limits: JsonLimits) -> Iterator[JsonValue]:
    if isinstance(value, str):
        _check_text(value, limits.string_chars)
    elif isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        for key in value:
            _check_text(key, limits.key_chars)
        yield from value.values()


def _check_text(text: str, chars: int | None) -> None:
    if chars is not None and len(text) > chars:
        raise JsonError(f"a string is longer than {chars} characters")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        shown = text[max(0, error.start - 20) : error.start]
        raise JsonError(f"a string holds a lone surrogate after {shown!r}") from error
