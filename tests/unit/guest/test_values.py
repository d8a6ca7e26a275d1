"""Rendering any value as JSON without running its code."""

from __future__ import annotations

import enum
import json
import math
from collections import Counter, OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from typing import ClassVar
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assayd.guest import values
from assayd.guest.tagged import render_tagged
from assayd.guest.values import Rendered, Renderer, render

TEXT = st.text(st.characters(blacklist_categories=["Cs"]))
NUMBER = st.integers(-(2**64), 2**64) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)

Point = namedtuple("Point", "x y")


class Level(enum.IntEnum):
    LOW = 1


class Touched(BaseException):
    """Raised when the code of a guest's class runs."""


def touch(*_args: object) -> None:
    raise Touched


HOOKS = (
    "__repr__", "__str__", "__iter__", "__len__", "__getitem__", "__bool__", "__eq__", "__hash__", "__int__",
    "__float__", "__index__", "__contains__", "__format__", "__getattribute__", "__reduce__", "items", "keys",
)  # fmt: skip


def hostile(base: type) -> type:
    """Return a subclass that raises in every method, including `__class__`."""
    methods: dict[str, object] = dict.fromkeys(HOOKS, touch)
    return type("Hostile", (base,), {**methods, "__class__": property(touch)})


def problems(value: object) -> list[tuple[str, str]]:
    """Return the path and problem of every note."""
    return [(note["path"], note["problem"]) for note in render(value).notes]


@given(JSON)
def test_json_values_are_kept_exactly_and_without_notes(value: object) -> None:
    rendered = render(value)

    assert json.dumps(rendered.value) == json.dumps(value)
    assert rendered.notes == []


@pytest.mark.parametrize(
    ("value", "rendered", "problem"),
    [
        (math.nan, "NaN", "NaN is not a JSON number"),
        (-math.inf, "-Infinity", "-Infinity is not a JSON number"),
        (1j, "<complex>", "complex is not a JSON value"),
        (object(), "<object>", "object is not a JSON value"),
        (print, "<builtin_function_or_method>", "builtin_function_or_method is not a JSON value"),
        ((1,), [1], "a tuple, shown as an array"),
        (frozenset({1}), [1], "a frozenset, shown as an array"),
        (Point(1, 2), [1, 2], "a Point, shown as an array"),
        (Level.LOW, 1, "a Level, shown as its base type int"),
        (bytearray(b"a"), {"$py": "bytes", "value": "YQ=="}, "a bytearray, shown as bytes"),
        (10**1000, "<int>", "int has 3322 bits"),
        ("\ud800x", "\\ud800x", "a string with lone surrogates"),
        ({1: 2}, {"1": 2}, "a key of type int"),
        ({None: 2}, {"null": 2}, "a key of type NoneType"),
        ({True: 2}, {"true": 2}, "a key of type bool"),
        ({1.5: 2}, {"1.5": 2}, "a key of type float"),
    ],
)
def test_what_json_cannot_hold_is_shown_and_noted(value: object, rendered: object, problem: str) -> None:
    assert render(value).value == rendered
    assert problems(value) == [("$", problem)]


class Colour(enum.Enum):
    RED = "#f00"


@dataclass
class Client:
    """A guest's dataclass."""

    name: str
    since: date
    kinds: ClassVar[list[str]] = []


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (b"bytes", {"$py": "bytes", "value": "Ynl0ZXM="}),
        (date(2024, 3, 1), {"$py": "date", "value": "2024-03-01"}),
        (datetime(2024, 3, 1, 12, tzinfo=UTC), {"$py": "datetime", "value": "2024-03-01T12:00:00+00:00"}),
        (timedelta(days=1, seconds=2), {"$py": "timedelta", "value": [1, 2, 0]}),
        (Decimal("0.10"), {"$py": "decimal", "value": "0.10"}),
        (PurePosixPath("/a/b"), {"$py": "path", "value": "/a/b"}),
        (UUID(int=1), {"$py": "uuid", "value": "00000000-0000-0000-0000-000000000001"}),
        (Colour.RED, {"$py": "enum", "value": "#f00", "type": "Colour.RED"}),
        (
            Client("ABC", date(2024, 3, 1)),
            {
                "$py": "dataclass",
                "value": {"name": "ABC", "since": {"$py": "date", "value": "2024-03-01"}},
                "type": "Client",
            },
        ),
    ],
)
@pytest.mark.parametrize("way", [render, render_tagged])
def test_what_has_a_usual_form_keeps_its_kind_beside_it(
    way: Callable[[object], Rendered], value: object, form: object
) -> None:
    rendered = way({"x": [value]})
    assert rendered.value == {"x": [form]}
    assert (rendered.notes, rendered.complete) == ([], True)


@pytest.mark.parametrize("value", [OrderedDict(a=1), defaultdict(int, a=1), Counter("a")])
def test_dicts_of_the_standard_library_are_dicts(value: object) -> None:
    for way in (render, render_tagged):
        rendered = way(value)
        assert (rendered.value, rendered.value_type, rendered.notes) == ({"a": 1}, "dict", [])
        assert way([value]).notes == []


def test_a_dataclass_that_contains_itself_is_cut_there() -> None:
    client = Client("ABC", date(2024, 3, 1))
    client.name = client  # type: ignore[assignment]
    rendered = render(client)
    assert isinstance(rendered.value, dict)
    assert rendered.value["value"]["name"] == "<Client>"
    assert not rendered.complete


def test_a_field_that_cannot_be_read_leaves_the_name_of_the_class() -> None:
    @dataclass
    class Sly:
        year: int = 1

    Sly.year = property(touch)  # type: ignore[assignment]
    assert render(object.__new__(Sly)).value.endswith("Sly>")  # type: ignore[attr-defined]


def test_notes_show_the_path() -> None:
    assert problems({"a": [0, {"b": {1}}]}) == [("$.a[1].b", "a set, shown as an array")]


@pytest.mark.parametrize(
    ("base", "content", "rendered"),
    [
        (dict, {"a": 1}, {"a": 1}),
        (list, [1, 2], [1, 2]),
        (tuple, (1, 2), [1, 2]),
        (str, "text", "text"),
        (int, 7, 7),
        (float, 1.5, 1.5),
        (set, {1}, [1]),
    ],
)
def test_hostile_subclass_is_read_as_its_base(base: type, content: object, rendered: object) -> None:
    found = render(hostile(base)(content))

    assert (found.value, found.value_type) == (rendered, "Hostile")
    assert "Hostile" in found.notes[0]["problem"]


def test_hostile_object_is_named_and_not_asked() -> None:
    assert render(hostile(object)()).value == "<Hostile>"


def test_hostile_metaclass_is_not_asked_for_the_name() -> None:
    lying = type("Lying", (type,), {"__name__": property(touch), "__getattribute__": touch})

    assert render(lying("Named", (), {})()).value == "<Named>"


def test_value_that_contains_itself_is_cut_there() -> None:
    value: list[object] = [1]
    value.append({"again": value})

    assert render(value).value == [1, {"again": "<list>"}]
    assert problems(value) == [("$[1].again", "list contains itself")]


def test_value_that_is_used_twice_is_shown_twice() -> None:
    inner = [1]

    assert render([inner, inner]).value == [[1], [1]]
    assert problems([inner, inner]) == []


def test_deep_nesting_is_cut() -> None:
    value: object = 1
    for _ in range(10_000):
        value = [value]

    text = json.dumps(render(value).value)

    assert text == "[" * values.MAX_DEPTH + '"<list>"' + "]" * values.MAX_DEPTH


def test_long_string_and_key_are_cut() -> None:
    rendered = render({"k" * 5000: "v" * (values.MAX_STRING_CHARS + 1)})

    ((key, value),) = rendered.value.items()  # type: ignore[attr-defined]
    assert (len(key), len(value)) == (values.MAX_KEY_CHARS, values.MAX_STRING_CHARS)
    assert [note["problem"] for note in rendered.notes] == [
        "a key that is too long, cut",
        f"a string of {values.MAX_STRING_CHARS + 1} characters, cut",
    ]


def test_too_many_items_are_cut() -> None:
    rendered = Renderer(most_items=1000).render_whole([[0] * 100] * 11)

    assert sum(len(row) for row in rendered.value) < 1000  # type: ignore[attr-defined]
    assert "more than" in rendered.notes[0]["problem"]
    assert not rendered.complete


def test_too_many_containers_are_named_instead_of_shown() -> None:
    rendered = Renderer(most_containers=100).render_whole([[] for _ in range(110)])

    assert rendered.value[-1] == "<list>"  # type: ignore[index]
    assert not rendered.complete


def test_keys_with_the_same_text_are_noted() -> None:
    assert render({1: "a", "1": "b"}).value == {"1": "b"}
    assert ("$", "two keys with the text '1', one omitted") in problems({1: "a", "1": "b"})


def test_notes_are_capped() -> None:
    assert len(render([{1}] * 1000).notes) == values.MAX_NOTES
