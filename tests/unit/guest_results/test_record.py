from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.guest_results.json_reader import GuestJsonError
from assayd.guest_results.record import (
    Bound,
    NoFunction,
    NotCompiled,
    Note,
    NotExecuted,
    Raised,
    Returned,
    Value,
    read_record,
)

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
    value = Value(value={"a": 1}, type_name="dict")
    bound = {"status": "returned", "values": {"x": RETURNED}, "missing": ["y"]}
    assert read_record(body(RETURNED)) == Returned(value=value)
    assert read_record(body(bound)) == Bound(values={"x": value}, missing=("y",))
    assert read_record(body(RAISED)) == Raised(
        error_type="ValueError", message="no", line=3, traceback="…", where="extract", phase="call"
    )
    assert read_record(body(NOT_COMPILED)) == NotCompiled(
        error_type="SyntaxError", message="no", line=1, column=None
    )
    assert read_record(b'{"status": "no_function"}') == NoFunction()
    not_executed = {"status": "not_executed", "error": "ENOENT", "message": "no"}
    assert read_record(body(not_executed)) == NotExecuted(error="ENOENT", message="no")


def test_notes_are_read() -> None:
    record = read_record(body(RETURNED | {"notes": [{"path": "$.a", "problem": "NaN"}]}))
    assert isinstance(record, Returned)
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
        read_record(body(record))


def test_what_a_guest_says_is_cut_to_size() -> None:
    record = read_record(body(RAISED | {"message": "x" * 10**6, "error_type": "E" * 10**6, "line": 10**9}))
    assert isinstance(record, Raised)
    assert (len(record.message), len(record.error_type), record.line) == (1000, 200, None)


@given(
    st.dictionaries(st.sampled_from([*RETURNED, *RAISED, "values"]), st.none() | st.integers() | st.text())
)
def test_any_object_gives_a_record_or_the_one_error(fields: dict[str, object]) -> None:
    for status in ("returned", "raised", "not_compiled"):
        with contextlib.suppress(GuestJsonError):
            assert isinstance(read_record(body(fields | {"status": status})), Returned | Raised | NotCompiled)
