"""Values of numpy and pandas, with stand-ins: rendering depends only on names in loaded modules."""

from __future__ import annotations

import sys
from datetime import datetime
from types import ModuleType, SimpleNamespace

import pytest

from assayd.guest.tagged import render_tagged
from assayd.guest.values import render


class Generic:
    """A numpy scalar."""

    def __init__(self, held: object, kind: str = "i") -> None:
        self.held, self.dtype = held, SimpleNamespace(kind=kind)

    def item(self) -> object:
        return self.held

    def astype(self, _: str) -> Generic:
        return Generic(datetime(2024, 3, 1))


class Float64(Generic, float):
    """A numpy scalar that is also a float."""

    def __new__(cls, held: float) -> Float64:
        return float.__new__(cls, held)


class Array(Generic):
    """A numpy array."""

    def tolist(self) -> object:
        return self.held


class Labels(Array):
    """A pandas index."""


class Series:
    """A pandas series."""

    def __init__(self, values: list[object]) -> None:
        self.name, self.values, self.dtype = "n", values, "int64"
        self.index = Labels([("a", 1), ("b", 2)])

    def tolist(self) -> list[object]:
        return self.values


class Frame:
    """A pandas table."""

    columns, index = Labels(["a", "b"]), Labels([0])
    dtypes = ("int64", "float64")

    def __len__(self) -> int:
        return 1

    def itertuples(self, *, index: bool, name: None) -> list[tuple[object, ...]]:
        return [(Generic(1), 2.5)]


class Columns(Labels):
    """A column index that knows its length."""

    def __len__(self) -> int:
        return 2


Frame.columns = Columns(["a", "b"])
NOTHING = object()


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    numpy, pandas = ModuleType("numpy"), ModuleType("pandas")
    vars(numpy).update(generic=Generic, ndarray=Array)
    vars(pandas).update(Series=Series, DataFrame=Frame, Index=Labels, NaT=NOTHING)
    monkeypatch.setitem(sys.modules, "numpy", numpy)
    monkeypatch.setitem(sys.modules, "pandas", pandas)


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (Generic(3), 3),
        (Generic(True), True),
        (Float64(1.5), 1.5),
        (Generic(7, "M"), {"$py": "datetime", "value": "2024-03-01T00:00:00"}),
        (NOTHING, None),
        (
            Array([[1, 2], [3, 4]]),
            {"$py": "ndarray", "value": [[1, 2], [3, 4]], "type": "namespace(kind='i')"},
        ),
        (
            Series([1, 2]),
            {
                "$py": "series",
                "value": {"name": "n", "index": [["a", 1], ["b", 2]], "values": [1, 2]},
                "type": "int64",
            },
        ),
        (
            Frame(),
            {
                "$py": "dataframe",
                "value": {
                    "columns": ["a", "b"],
                    "dtypes": ["int64", "float64"],
                    "index": [0],
                    "rows": [[1, 2.5]],
                },
                "type": "1 x 2",
            },
        ),
    ],
)
def test_value_has_its_form_and_no_note(value: object, form: object) -> None:
    for rendered in (render(value), render_tagged(value)):
        assert (rendered.value, rendered.notes, rendered.complete) == (form, [], True)


def test_scalar_without_a_form_keeps_its_note() -> None:
    [note] = render(Generic(1j)).notes

    assert "is not a JSON value" in note["problem"]


def test_array_that_is_too_large_is_cut_and_says_so() -> None:
    rendered = render(Array([0] * 1_100_000))

    assert not rendered.complete


@pytest.mark.parametrize("fake", [SimpleNamespace(generic=object), 5, None])
def test_module_that_is_none_changes_nothing(monkeypatch: pytest.MonkeyPatch, fake: object) -> None:
    monkeypatch.setitem(sys.modules, "numpy", fake)

    assert render({"a": 1, "b": [1.5]}).value == {"a": 1, "b": [1.5]}


class Broken(Array):
    """An array that can't be read."""

    def tolist(self) -> object:
        raise MemoryError("too much")


def test_reading_that_fails_is_a_note() -> None:
    rendered = render([Broken([])])

    assert rendered.value == ["<Broken>"]
    assert "cannot be read" in rendered.notes[0]["problem"]
