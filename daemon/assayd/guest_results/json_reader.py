"""Reads JSON that a guest wrote: whole, bounded, and without what strict JSON does not have.

Decides form only. What a record means is decided in `guest_record` and by the validators.

    b'{"a": 1, "a": 2}'   GuestJsonError: duplicate key 'a'
    b'[NaN]'              GuestJsonError: NaN is not JSON
    b'[[[[…'              GuestJsonError: nested deeper than 80
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import NoReturn

from assayd.model.submission import JsonValue
from assayd.model.text_limits import shorten


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonCaps:
    """How much of everything a guest's JSON may have: a little more than the guest's own renderer gives."""

    bytes: int = 8 * 2**20
    depth: int = 80
    containers: int = 500_000
    values: int = 1_200_000
    string_chars: int = 8 * 2**20
    key_chars: int = 4096
    digits: int = 1000


DEFAULT_CAPS = JsonCaps()

# A string is swallowed whole even when it never ends, so that the scan stays linear.
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"?+|[\[{]|[\]}]', re.DOTALL)


class GuestJsonError(ValueError):
    """Bytes of a guest that are not acceptable JSON; the message says why."""


def decode(body: bytes, caps: JsonCaps = DEFAULT_CAPS) -> JsonValue:
    """Decode one JSON value.

    Raises: GuestJsonError at anything that is not strict JSON within the caps.
    """
    if len(body) > caps.bytes:
        raise GuestJsonError(f"larger than {caps.bytes} bytes")
    _check_nesting(body, caps)
    try:
        value: JsonValue = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=lambda digits: _short_int(digits, caps.digits),
        )
    except GuestJsonError:
        raise
    except UnicodeDecodeError:
        raise GuestJsonError("not UTF-8") from None
    except (ValueError, RecursionError) as problem:
        raise GuestJsonError(f"not JSON: {shorten(str(problem), 200)}") from None
    _check_values(value, caps)
    return value


def _check_nesting(body: bytes, caps: JsonCaps) -> None:
    """Bound depth and number of containers before anything is built."""
    depth = opened = 0
    for match in _STRING_OR_BRACKET.finditer(body):
        token = match[0]
        if token in (b"[", b"{"):
            depth += 1
            opened += 1
            if depth > caps.depth:
                raise GuestJsonError(f"nested deeper than {caps.depth}")
            if opened > caps.containers:
                raise GuestJsonError(f"more than {caps.containers} lists and objects")
        elif token in (b"]", b"}"):
            depth -= 1


def _check_values(root: JsonValue, caps: JsonCaps) -> None:
    pending: list[JsonValue] = [root]
    count = 0
    while pending:
        value = pending.pop()
        count += 1
        if count > caps.values:
            raise GuestJsonError(f"more than {caps.values} values")
        if isinstance(value, str):
            _check_text(value, caps.string_chars)
        elif isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            for key in value:
                _check_text(key, caps.key_chars)
            pending.extend(value.values())


def _check_text(text: str, chars: int) -> None:
    if len(text) > chars:
        raise GuestJsonError(f"a string is longer than {chars} characters")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise GuestJsonError("a string holds half a surrogate pair") from None


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        [(twice, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise GuestJsonError(f"duplicate key {shorten(twice, 60)!r}")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise GuestJsonError(f"{shorten(text, 60)} is out of range")
    return number


def _short_int(digits: str, cap: int) -> int:
    if len(digits) > cap:
        raise GuestJsonError(f"a number has more than {cap} digits")
    return int(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise GuestJsonError(f"{name} is not JSON")
