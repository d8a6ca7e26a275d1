"""Values beyond JSON, encoded and decoded."""

from __future__ import annotations

import json
import math
from collections import namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.guest import values
from assayd.guest.tagged import TAG, TAGS, render_tagged, restore_tagged
from assayd.guest.tagged import _TaggedRenderer as Tagging
from assayd.guest.values import MAX_DEPTH, Rendered


def there_and_back(value: object) -> tuple[object, Rendered]:
    """Encode a value as text, and decode it."""
    rendered = render_tagged(value)
    return restore_tagged(json.loads(json.dumps(rendered.value, allow_nan=False))), rendered


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.decimals(allow_nan=False)
    | st.datetimes()
    | st.datetimes(timezones=st.just(timezone(timedelta(minutes=-90))))
    | st.dates()
    | st.times()
    | st.timedeltas()
)
HASHABLE = st.recursive(
    SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4
)
ANYTHING = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.sets(HASHABLE, max_size=3)
        | st.dictionaries(HASHABLE | st.just(TAG), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(ANYTHING)
def test_every_value_comes_back_equal_and_of_its_own_type(value: object) -> None:
    back, rendered = there_and_back(value)

    assert back == value
    assert repr(type(back)) == repr(type(value))
    assert (rendered.notes, rendered.complete) == ([], True)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_plain_json_stays_as_it_is(value: object) -> None:
    assert render_tagged({"a": value}).value == {"a": value}


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_infinite_numbers_come_back(value: float) -> None:
    assert there_and_back([value])[0] == [value]


def test_not_a_number_comes_back() -> None:
    back, _ = there_and_back(float("nan"))
    assert isinstance(back, float)
    assert math.isnan(back)


def test_equal_sets_have_one_form() -> None:
    forms = {json.dumps(render_tagged(set(order)).value) for order in (["b", "a", "c"], ["c", "b", "a"])}
    assert forms == {'{"$py": "set", "value": ["a", "b", "c"]}'}


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "form", "problem"),
    [
        (Point(1, 2), {TAG: "tuple", "value": [1, 2]}, "a Point, shown as its base type tuple"),
        (bytearray(b"a"), {TAG: "bytes", "value": "YQ=="}, "a bytearray, shown as bytes"),
        (Fraction(1, 3), {TAG: "object", "value": "Fraction"}, "Fraction has no tagged form"),
    ],
)
def test_what_loses_something_is_noted(value: object, form: object, problem: str) -> None:
    rendered = render_tagged(value)
    assert (rendered.value, [note["problem"] for note in rendered.notes]) == (form, [problem])
    assert rendered.complete


def test_number_of_too_many_digits_is_left_out_and_makes_the_value_incomplete() -> None:
    rendered = render_tagged([1 << 5000])
    assert (rendered.value, rendered.complete) == ([{TAG: "object", "value": "int"}], False)
    assert [note["problem"] for note in rendered.notes] == ["int has 5001 bits"]


class Zone(tzinfo):
    def utcoffset(self, when: datetime | None) -> timedelta:
        raise KeyboardInterrupt


class Text(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise KeyboardInterrupt

    __hash__ = str.__hash__


class Late(datetime):
    def isoformat(self, *_: object, **__: object) -> str:
        return "2000-01-01"


def test_code_of_a_values_class_has_no_say() -> None:
    at = datetime(2024, 1, 1, tzinfo=Zone())
    rendered = render_tagged([at, {Text("k"): 1}, Late(2024, 1, 1)])
    assert rendered.value == [
        {TAG: "object", "value": "datetime"},
        {TAG: "dict", "value": [["k", 1]]},
        {TAG: "datetime", "value": "2024-01-01T00:00:00"},
    ]


def test_nesting_counts_every_level_of_the_form() -> None:
    value: object = ()
    for _ in range(200):
        value = (value,)
    rendered = render_tagged(value)
    text = json.dumps(rendered.value)
    assert not rendered.complete
    assert text.count('"tuple"') <= MAX_DEPTH // 2 + 1


def test_values_that_are_too_many_with_their_tags_are_cut() -> None:
    assert Tagging(most_items=310).render_whole([Decimal(1)] * 100).complete
    assert not Tagging(most_items=290).render_whole([Decimal(1)] * 100).complete


def test_bytes_that_are_too_many_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = render_tagged(bytes(values.MAX_STRING_CHARS))
    assert (rendered.value, rendered.complete) == ({TAG: "bytes", "value": ""}, False)


@pytest.mark.parametrize(
    "form",
    [
        {TAG: "set"},
        {TAG: "set", "value": [1], "more": 1},
        {TAG: "object", "value": "Foo"},
        {TAG: ["set"], "value": []},
        {TAG: "set", "value": {"a": 1}},
        {TAG: "set", "value": [[1]]},
        {TAG: "dict", "value": [[1, 2, 3]]},
        {TAG: "dict", "value": [["a", 1], ["a", 2]]},
        {TAG: "dict", "value": [[[], 1]]},
        {TAG: "bytes", "value": "!"},
        {TAG: "bytes", "value": "ü"},
        {TAG: "bytes", "value": 1},
        {TAG: "float", "value": "1.0"},
        {TAG: "decimal", "value": "one"},
        {TAG: "datetime", "value": "yesterday"},
        {TAG: "date", "value": "2023-02-29"},
        {TAG: "time", "value": "25:00"},
        {TAG: "timedelta", "value": [1, 2]},
        {TAG: "timedelta", "value": [10**12, 0, 0]},
        {"a": [{TAG: "list", "value": []}]},
    ],
)
def test_forms_that_are_none_are_refused(form: object) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        restore_tagged(form)


def test_every_tag_is_read_and_written() -> None:
    written = [(), set(), frozenset(), {1: 1}, b"", float("nan"), Decimal(1)]
    written += [datetime.now(UTC), date(2024, 1, 1), time(1), timedelta(1), UUID(int=1), Path("/a")]
    assert sorted(render_tagged(value).value[TAG] for value in written) == sorted(TAGS)  # type: ignore[index]
