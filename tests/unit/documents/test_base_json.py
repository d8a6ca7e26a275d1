from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from assayd.documents import read_submission
from assayd.documents.base import (
    MAX_CONTAINERS,
    MAX_DEPTH,
    MAX_VALUES,
    MOST,
    canonical,
    digest,
    parse_json,
    reject_excess_errors,
)
from assayd.errors import RequestError
from assayd.kinds import registry


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (b"", "line 1, column 1"),
        (b"{", "line 1, column 2"),
        (b'{"a": 1,}', "line 1"),
        (b'{"a": 1} {}', "Extra data"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b'{"a": "\xff"}', "isn't valid UTF-8 at byte 7"),
        (b'"\xed\xa0\x80"', "isn't valid UTF-8"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "'c' is repeated"),
        (b'{"a": NaN}', "NaN isn't"),
        (b"[Infinity]", "Infinity isn't"),
        (b"[-Infinity]", "-Infinity isn't"),
        (b"[1e999]", "too large"),
        (b"[" + b"9" * 500 + b"]", "longer than"),
        (b'["\\ud800"]', "lone surrogate"),
        (b'{"\\udfff": 1}', "lone surrogate"),
        (b'["a\nb"]', "control character"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "nested deeper"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "nested deeper"),
        (b"01", "Extra data"),
        (b"[.5]", "Expecting value"),
        (b"'a'", "Expecting value"),
    ],
)
def test_what_is_not_strict_json_is_refused_with_its_place(text: bytes, part: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_json(text)
    assert caught.value.code == "malformed"
    assert part in caught.value.message


def test_a_duplicate_key_is_named_as_the_field() -> None:
    with pytest.raises(RequestError) as caught:
        parse_json(b'{"kind": 1, "kind": 2}')
    assert caught.value.field == "kind"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b' {"a": [1, -2.5e3, true, null, "x"]} ', {"a": [1, -2500.0, True, None, "x"]}),
        ('["é", "\\u00e9", "\\ud83d\\ude00"]'.encode(), ["é", "é", "😀"]),
        (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, None),
        (b"9007199254740993", 9007199254740993),
    ],
)
def test_legitimate_neighbours_are_read(text: bytes, value: object) -> None:
    read = parse_json(text)
    assert value is None or read == value


def test_canonical_does_not_depend_on_order_or_escapes() -> None:
    one = canonical(parse_json(b'{"b": 1, "a": "\\u00e9"}'))
    other = canonical(parse_json('{ "a":"é" , "b":1 }'.encode()))
    assert one == other == '{"a":"é","b":1}'.encode()
    assert digest(one) == digest(other)


def test_canonical_writes_valid_utf8_for_what_a_guest_may_say() -> None:
    assert canonical("a\ud800b") == b'"a?b"'


def test_canonical_never_writes_nan() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(float("nan"))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (b"[" + b"[]," * MAX_CONTAINERS + b"[]]", "arrays and objects; the limit is 200000"),
        (b"[" + b"{}," * MAX_CONTAINERS + b"{}]", "arrays and objects; the limit is 200000"),
        (b"[" + b"1," * MAX_VALUES + b"1]", "values; the limit is 200000"),
        (b'["' + b"[" * 10 + b'",' + b"[]," * MAX_CONTAINERS + b'"never ends', "has too many"),
        (b'["' + b'\\"' * 500_000 + b'",' + b"[]," * MAX_CONTAINERS + b"1]", "has too many"),
        (b'["' + b"," * MAX_VALUES + b'"' + b'""' * 500_000, "values; the limit is 200000"),
    ],
)
def test_text_that_would_hold_too_much_is_refused_before_it_is_read(text: bytes, part: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_json(text)
    assert caught.value.code == "too_large"
    assert part in caught.value.message


def test_brackets_and_commas_in_strings_do_not_count() -> None:
    code = "[{," * MAX_VALUES + '\\"'
    assert parse_json(canonical({"code": code})) == {"code": code}


def test_as_many_arrays_and_values_as_may_be_are_read() -> None:
    assert parse_json(b"[" + b"[]," * (MAX_CONTAINERS - 2) + b"[]]") == [[]] * (MAX_CONTAINERS - 1)
    assert parse_json(b"[" + b"1," * (MAX_VALUES - 1) + b"1]") == [1] * MAX_VALUES


def large_values() -> Iterator[object]:
    numbers = list(range(30_000))
    yield numbers
    yield {f"k{n % 7}{n}": str(n) for n in numbers}
    yield [{"b": n, "a": [n, None, True, 1.5, f"ä\n{n}\U0001f600"]} for n in numbers[:9000]]
    yield {"deep": {"list": [[n] for n in numbers], "text": '"\\\n\u2028😀' * 200_000}, "a": [], "b": {}}
    yield [[], [numbers, []], {"x": numbers}, {}]
    yield {1: numbers, 2: "keys that are no texts"}


@pytest.mark.parametrize("value", list(large_values()), ids=range(6))
def test_what_is_written_in_pieces_is_what_is_written_at_once(value: object) -> None:
    whole = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    assert canonical(value) == whole.encode()


@pytest.mark.slow
def test_large_values_are_written_without_holding_many_times_their_text() -> None:
    """Regression: all pieces of a text were held at once, ten times its size, for each of three copies."""
    value = [{"name": str(number), "value": number} for number in range(100_000)]
    tracemalloc.start()
    try:
        text = canonical(value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * len(text)


class _Counted(list[object]):
    """A list that counts how often a value is read from it."""

    taken = 0

    def __iter__(self) -> Iterator[object]:
        for value in super().__iter__():
            self.taken += 1
            yield value


def test_a_long_list_is_not_looked_through_at_each_level_above_it() -> None:
    value = numbers = _Counted([1] * 200_000)
    for _ in range(40):
        value = [value]
    canonical(value)
    assert numbers.taken <= 2 * len(numbers)


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    sizes: list[int] = []


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")

    part: Part | None = None
    parts: Annotated[tuple[Part, ...], Field(max_length=10)] = ()
    texts: dict[str, str] = {}
    either: str | list[str] = ""
    free: dict[str, JsonValue] = {}


MANY = range(MOST + 1)
UNKNOWN = {f"x{n}": n for n in MANY}


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (UNKNOWN, "x0"),
        ({"part": UNKNOWN}, "part.x0"),
        ({"parts": [UNKNOWN]}, "parts.0.x0"),
        ({"part": {"name": "a", "sizes": [None for _ in MANY]}}, "part.sizes.0."),
        ({"texts": {f"t{n}": n for n in MANY}}, "texts.t0."),
        ({"either": list(MANY)}, "either.0."),
        ({"parts": [1 for _ in MANY]}, "parts.0."),
    ],
)
def test_many_misfits_are_refused_by_the_first(value: dict[str, object], field: str) -> None:
    with pytest.raises(RequestError) as refused:
        reject_excess_errors(Whole, value)
    assert refused.value.code == "invalid"
    assert refused.value.field == field


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"part": None, "either": ["a"] * 500},
        {"free": UNKNOWN, "texts": {f"t{n}": "" for n in range(500)}},
        {"free": {"list": list(range(5000))}},
        {"part": {"name": 1, "other": 2}},
    ],
)
def test_what_fits_and_few_misfits_are_left_to_the_model(value: dict[str, object]) -> None:
    reject_excess_errors(Whole, value)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["", "overrides", "payload"])
def test_submission_of_a_hundred_thousand_unknown_fields_is_refused_at_once(where: str) -> None:
    crowd = {f"x{n}": 1 for n in range(100_000)}
    body: dict[str, object] = {"kind": "script", "payload": {"code": "pass"}}
    body |= {where: crowd} if where else crowd
    with pytest.raises(RequestError, match=f"more than {MOST} fields"):
        read_submission(json.dumps(body).encode(), registry.load_validators([]))
