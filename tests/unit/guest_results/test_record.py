from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.guest_results import (
    DEFAULT_LIMITS,
    BoundNames,
    CompileFailure,
    ExecFailure,
    GuestJsonError,
    MissingFunction,
    Note,
    RaisedException,
    ReturnedValue,
    TypedValue,
    decode_guest_json,
    parse_guest_record,
)
from assayd.model.json_reader import JsonLimits

RETURNED = {"status": "returned", "value": {"a": 1}, "value_type": "dict", "notes": [], "duration_s": 0.1}
RAISED = {
    "status": "raised",
    "error_type": "ValueError",
    "message": "no",
    "line": 3,
    "traceback": "…",
    "where": "extract",
    "phase": "call",
}
NOT_COMPILED = {
    "status": "not_compiled",
    "error_type": "SyntaxError",
    "message": "no",
    "line": 1,
    "column": None,
}


def body(record: object) -> bytes:
    return json.dumps(record).encode()


def test_each_record_of_the_protocol_is_read() -> None:
    value = TypedValue(value={"a": 1}, type_name="dict")
    bound = {"status": "returned", "values": {"x": RETURNED}, "missing": ["y"]}
    assert parse_guest_record(body(RETURNED)) == ReturnedValue(value=value)
    assert parse_guest_record(body(bound)) == BoundNames(values={"x": value}, missing=("y",))
    assert parse_guest_record(body(RAISED)) == RaisedException(
        error_type="ValueError", message="no", line=3, traceback="…", where="extract", phase="call"
    )
    assert parse_guest_record(body(NOT_COMPILED)) == CompileFailure(
        error_type="SyntaxError", message="no", line=1, column=None
    )
    assert parse_guest_record(b'{"status": "no_function"}') == MissingFunction()
    not_executed = {"status": "not_executed", "error": "ENOENT", "message": "no"}
    assert parse_guest_record(body(not_executed)) == ExecFailure(error="ENOENT", message="no")


def test_notes_are_read() -> None:
    record = parse_guest_record(body(RETURNED | {"notes": [{"path": "$.a", "problem": "NaN"}]}))
    assert isinstance(record, ReturnedValue)
    assert record.value.notes == (Note(path="$.a", problem="NaN"),)


@pytest.mark.parametrize(
    "record",
    [
        [],
        "returned",
        {},
        {"status": "passed"},
        {"status": ["returned"]},
        {"status": "returned"},
        {"status": "not_executed", "error": 2, "message": "no"},
        RETURNED | {"value_type": None},
        RETURNED | {"value_type": 1},
        RETURNED | {"notes": "none"},
        RETURNED | {"notes": ["none"]},
        RETURNED | {"notes": [{"path": 1, "problem": "x"}]},
        RETURNED | {"values": 1},
        RETURNED | {"values": {"x": 1}},
        RETURNED | {"values": {"x": RETURNED}, "missing": "y"},
        RAISED | {"error_type": 1},
        RAISED | {"message": None},
        RAISED | {"line": "3"},
        RAISED | {"line": True},
        RAISED | {"line": 3.0},
        RAISED | {"traceback": []},
        RAISED | {"phase": 1},
        NOT_COMPILED | {"column": "1"},
        {key: value for key, value in RAISED.items() if key != "phase"},
    ],
)
def test_a_field_of_another_type_is_no_record(record: object) -> None:
    with pytest.raises(GuestJsonError):
        parse_guest_record(body(record))


def test_what_a_guest_says_is_cut_to_size() -> None:
    record = parse_guest_record(
        body(RAISED | {"message": "x" * 10**6, "error_type": "E" * 10**6, "line": 10**9})
    )
    assert isinstance(record, RaisedException)
    assert (len(record.message), len(record.error_type), record.line) == (1000, 200, None)


@given(
    st.dictionaries(st.sampled_from([*RETURNED, *RAISED, "values"]), st.none() | st.integers() | st.text())
)
def test_any_object_gives_a_record_or_the_one_error(fields: dict[str, object]) -> None:
    for status in ("returned", "raised", "not_compiled"):
        with contextlib.suppress(GuestJsonError):
            assert isinstance(
                parse_guest_record(body(fields | {"status": status})),
                ReturnedValue | RaisedException | CompileFailure,
            )


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
        decode_guest_json(body)


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
        decode_guest_json(body, limits)


def test_numbers_next_to_the_limits_are_read() -> None:
    assert decode_guest_json(b"[1e308, 1e-400, 1e00009]") == [1e308, 0.0, 1e9]
    assert decode_guest_json(b"9" * 1000) == int("9" * 1000)


def test_texts_that_look_like_long_numbers_are_read() -> None:
    assert decode_guest_json(b'["' + b"0" * 2000 + b'", "e999", 7, 0.5]') == ["0" * 2000, "e999", 7, 0.5]


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_deepest_level_that_is_allowed_may_be_empty_only(depth: int) -> None:
    limits = replace(DEFAULT_LIMITS, depth=depth)

    assert decode_guest_json(b"[" * depth + b"]" * depth, limits) is not None
    with pytest.raises(GuestJsonError, match="nested deeper"):
        decode_guest_json(b"[" * depth + b"1" + b"]" * depth, limits)


def test_brackets_inside_strings_do_not_count_as_nesting() -> None:
    assert decode_guest_json(b'["' + b"[" * 500 + b'", "\\"]"]') == ["[" * 500, '"]']


@given(_VALUES)
def test_ordinary_json_comes_back_as_it_was(value: object) -> None:
    assert decode_guest_json(json.dumps(value).encode()) == value
    assert decode_guest_json(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\0eE-ntruefals', max_size=40).map(str.encode))
def test_any_bytes_give_a_value_or_the_one_error(body: bytes) -> None:
    with contextlib.suppress(GuestJsonError):
        assert decode_guest_json(body) == json.loads(body)
