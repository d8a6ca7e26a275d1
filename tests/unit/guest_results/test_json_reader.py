from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.guest_results.json_reader import DEFAULT_LIMITS, GuestJsonError, decode
from assayd.model.json_reader import JsonLimits

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"1 2", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b'"a\nb"', "not JSON"),
        (b"nul", "not JSON"),
        (b'"\xff"', "isn't valid UTF-8"),
        (b'"\xed\xa0\x80"', "isn't valid UTF-8"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\ud800": 1}', "surrogate"),
        (b"NaN", "NaN"),
        (b"[Infinity]", "Infinity"),
        (b'{"a": -Infinity}', "Infinity"),
        (b"1e999", "too large"),
        (b"-1e999", "too large"),
        (b"[1E+0400]", "too large"),
        (b"1" + b"0" * 250 + b".0e99", "too large"),
        (b'{"a": 1, "a": 2}', "key 'a' is repeated"),
        (b'[{"b": {"a": 1, "a": 1}}]', "key 'a' is repeated"),
        (b"9" * 2000, "longer than"),
        (b"[" * 200 + b"]" * 200, "nested deeper"),
        (b"[" * 400_000, "nested deeper"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "nested deeper"),
        (b'"\\"[' * 100_000, "not JSON"),
    ],
)
def test_what_is_not_strict_json_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(GuestJsonError, match=reason):
        decode(body)


@pytest.mark.parametrize(
    ("limits", "body", "reason"),
    [
        (replace(DEFAULT_LIMITS, bytes=10), b'"0123456789"', "larger than 10"),
        (replace(DEFAULT_LIMITS, depth=2), b"[[[]]]", "deeper than 2"),
        (replace(DEFAULT_LIMITS, containers=3), b"[[],[],[]]", "the limit is 3"),
        (replace(DEFAULT_LIMITS, values=3), b"[1,2,3,4]", "the limit is 3"),
        (replace(DEFAULT_LIMITS, string_chars=3), b'"abcd"', "longer than 3"),
        (replace(DEFAULT_LIMITS, key_chars=3), b'{"abcd": 1}', "longer than 3"),
        (replace(DEFAULT_LIMITS, number_chars=3), b"1000", "longer than 3 characters"),
    ],
)
def test_every_limit_holds(limits: JsonLimits, body: bytes, reason: str) -> None:
    with pytest.raises(GuestJsonError, match=reason):
        decode(body, limits)


def test_numbers_next_to_the_limits_are_read() -> None:
    assert decode(b"[1e308, 1e-400, 1e00009]") == [1e308, 0.0, 1e9]
    assert decode(b"9" * 1000) == int("9" * 1000)


def test_texts_that_look_like_long_numbers_are_read() -> None:
    assert decode(b'["' + b"0" * 2000 + b'", "e999", 7, 0.5]') == ["0" * 2000, "e999", 7, 0.5]


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_deepest_level_that_is_allowed_may_be_empty_only(depth: int) -> None:
    limits = replace(DEFAULT_LIMITS, depth=depth)

    assert decode(b"[" * depth + b"]" * depth, limits) is not None
    with pytest.raises(GuestJsonError, match="nested deeper"):
        decode(b"[" * depth + b"1" + b"]" * depth, limits)


def test_brackets_inside_strings_do_not_count_as_nesting() -> None:
    assert decode(b'["' + b"[" * 500 + b'", "\\"]"]') == ["[" * 500, '"]']


@given(_VALUES)
def test_ordinary_json_comes_back_as_it_was(value: object) -> None:
    assert decode(json.dumps(value).encode()) == value
    assert decode(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\0eE-ntruefals', max_size=40).map(str.encode))
def test_any_bytes_give_a_value_or_the_one_error(body: bytes) -> None:
    with contextlib.suppress(GuestJsonError):
        assert decode(body) == json.loads(body)
