from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.guest_results.json_reader import GuestJsonError, JsonCaps, decode

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
        (b'"\xff"', "not UTF-8"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\ud800": 1}', "surrogate"),
        (b"NaN", "NaN"),
        (b"[Infinity]", "Infinity"),
        (b'{"a": -Infinity}', "Infinity"),
        (b"1e999", "out of range"),
        (b"-1e999", "out of range"),
        (b'{"a": 1, "a": 2}', "duplicate key 'a'"),
        (b'[{"b": {"a": 1, "a": 1}}]', "duplicate key 'a'"),
        (b"9" * 2000, "digits"),
        (b"[" * 200 + b"]" * 200, "nested deeper"),
        (b"[" * 1_000_000, "nested deeper"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "nested deeper"),
        (b'"\\"[' * 100_000, "not JSON"),
    ],
)
def test_what_is_not_strict_json_is_refused(body: bytes, reason: str) -> None:
    with pytest.raises(GuestJsonError, match=reason):
        decode(body)


@pytest.mark.parametrize(
    ("caps", "body", "reason"),
    [
        (JsonCaps(bytes=10), b'"0123456789"', "larger than 10"),
        (JsonCaps(depth=2), b"[[[]]]", "deeper than 2"),
        (JsonCaps(containers=3), b"[[],[],[]]", "more than 3 lists"),
        (JsonCaps(values=3), b"[1,2,3]", "more than 3 values"),
        (JsonCaps(string_chars=3), b'"abcd"', "longer than 3"),
        (JsonCaps(key_chars=3), b'{"abcd": 1}', "longer than 3"),
        (JsonCaps(digits=3), b"1000", "more than 3 digits"),
    ],
)
def test_every_cap_holds(caps: JsonCaps, body: bytes, reason: str) -> None:
    with pytest.raises(GuestJsonError, match=reason):
        decode(body, caps)


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
