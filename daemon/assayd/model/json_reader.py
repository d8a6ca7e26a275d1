"""Parses JSON from requests and containers, strictly and within limits.

Only the form is checked. In addition to invalid JSON, this module rejects invalid UTF-8, a byte order mark,
duplicate keys, NaN and infinities (including numbers that overflow), lone surrogates, and texts that exceed
a limit.

    b'{"a": 1, "a": 2}'   JsonError: the key 'a' is repeated
    b'[NaN]'              JsonError: NaN is not a JSON number
    b'[[[[…'              JsonError: nested deeper than 64 levels
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

from assayd.model.submission import JsonValue

_COUNTED_PATTERN = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?|[\[{,]', re.DOTALL)
"""A string, even an unterminated one, or a counted character. The pattern never backtracks."""
_QUOTE, _COMMA = b'",'
_SURROGATE_PATTERN = re.compile(rb"\\u[dD][89a-fA-F]")
_SHORT_NUMBER_CHARS = 100
"""Characters below which a number without a large exponent is always finite."""
_LARGE_EXPONENT = b"e000"
_EXPONENT_TABLE = bytes(
    0x30 if chr(byte) in "0123456789" else 0x65 if chr(byte) in "eE" else 0x20 for byte in range(256)
)
_NUMBERS_AS_ZEROS = bytes(0x30 if chr(byte) in "+-.0123456789eE" else 0x20 for byte in range(256))


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLimits:
    """The limits of one JSON text. None means no limit.

    `values` is checked by counting commas. Arrays and objects are counted separately, because an empty array
    or object occupies three bytes of text but at least 64 bytes of memory.
    """

    bytes: int | None = None
    depth: int
    containers: int
    values: int
    number_chars: int
    string_chars: int | None = None
    key_chars: int | None = None


class JsonError(ValueError):
    """An exception raised for bytes that aren't acceptable JSON.

    The message states the reason; `field` is the faulty key, if there is one.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class JsonTooLargeError(JsonError):
    """An exception raised before parsing for JSON that exceeds the limits."""


def parse_strictly(text: bytes, limits: JsonLimits) -> JsonValue:
    """Parse one JSON text. Raises: JsonError, with the position or key at fault."""
    reject_large(text, limits)
    parse_int, parse_float = _build_number_readers(text, limits)
    try:
        value: JsonValue = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_build_object,
            parse_constant=_reject_constant,
            parse_int=parse_int,
            parse_float=parse_float,
        )
    except UnicodeDecodeError as error:
        raise JsonError(f"the text isn't valid UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise JsonError(f"{error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise JsonError(f"nested deeper than {limits.depth} levels") from error
    if count_containers(text) >= limits.depth:
        _check_depth(value, limits.depth)
    if _needs_text_check(text, limits):
        _check_texts(value, limits)
    return value


def _build_number_readers(
    text: bytes, limits: JsonLimits
) -> tuple[Callable[[str], int], Callable[[str], float]]:
    """Return the parser's functions for integers and for other numbers.

    With functions other than `int` and `float`, the C parser calls Python for each number, which dominates
    the parsing time of JSON with many numbers. Therefore, other functions are used only if the JSON could
    contain a number that is too long or too large.
    """

    def shorten_number(number: str) -> str:
        if len(number) > limits.number_chars:
            raise JsonError(f"a number is longer than {limits.number_chars} characters")
        return number

    if b"0" * min(_SHORT_NUMBER_CHARS, limits.number_chars + 1) in text.translate(_NUMBERS_AS_ZEROS):
        return (lambda number: int(shorten_number(number))), (
            lambda number: _parse_finite(shorten_number(number))
        )
    return int, _parse_finite if _LARGE_EXPONENT in text.translate(_EXPONENT_TABLE, b"+-") else float


def reject_large(text: bytes, limits: JsonLimits) -> None:
    """Reject JSON with too many values before memory is allocated. Ignore the contents of strings.

    Raises: JsonTooLargeError, if the text exceeds a limit.
    """
    if limits.bytes is not None and len(text) > limits.bytes:
        raise JsonTooLargeError(f"the text is larger than {limits.bytes} bytes")
    if count_containers(text) <= limits.containers and text.count(b",") < limits.values:
        return
    containers = commas = strings = 0
    for match in _COUNTED_PATTERN.finditer(
        text
    ):  # In a loop, because a single call would hold the GIL for seconds.
        first = text[match.start()]
        if first == _QUOTE:
            strings += 1
        elif first == _COMMA:
            commas += 1
        else:
            containers += 1
        if containers > limits.containers:
            found = f"the text has too many arrays and objects; the limit is {limits.containers}"
            raise JsonTooLargeError(f"{found}. Send less, or nest it less")
        if commas >= limits.values or strings > 2 * limits.values:
            message = f"the text has too many values; the limit is {limits.values}. Send less"
            raise JsonTooLargeError(message)


def count_containers(text: bytes) -> int:
    """Return an upper bound for the number of arrays and objects in JSON."""
    return text.count(b"[") + text.count(b"{")


def _build_object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise JsonError(f"the key {key[:64]!r} is repeated", field=key[:64])
            seen.add(key)
    return members


def _reject_constant(name: str) -> NoReturn:
    raise JsonError(f"{name} isn't a JSON number")


def _parse_finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise JsonError("a number is too large")
    return number


def _check_depth(value: JsonValue, most: int) -> None:
    """Check the nesting depth of a parsed value without recursion, because the depth is still unknown."""
    level = [value]
    for _ in range(most - 1):
        level = [child for each in level for child in _iter_children(each) if isinstance(child, list | dict)]
    if any(level):
        raise JsonError(f"nested deeper than {most} levels")


def _needs_text_check(text: bytes, limits: JsonLimits) -> bool:
    most = [each for each in (limits.string_chars, limits.key_chars) if each is not None]
    return any(len(text) > each for each in most) or _SURROGATE_PATTERN.search(text) is not None


def _check_texts(value: JsonValue, limits: JsonLimits) -> None:
    waiting = [value]
    for each in waiting:  # The list grows during the loop.
        if isinstance(each, str):
            _check_text(each, limits.string_chars)
        elif isinstance(each, dict):
            for key in each:
                _check_text(key, limits.key_chars)
        waiting.extend(_iter_children(each))


def _iter_children(value: JsonValue) -> Iterable[JsonValue]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _check_text(text: str, chars: int | None) -> None:
    if chars is not None and len(text) > chars:
        raise JsonError(f"a string is longer than {chars} characters")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        shown = text[max(0, error.start - 20) : error.start]
        raise JsonError(f"a string has a lone surrogate after {shown!r}") from error
