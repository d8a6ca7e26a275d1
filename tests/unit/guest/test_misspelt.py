"""The intended name of a misspelt attribute, key or import, found by asking the objects."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from assayd.guest.failures import ShownText, find_similar_name

FILE = "<submitted>"


def meant(text: str, **names: object) -> tuple[str, bool] | None:
    """Run a text that raises; return the intended name."""
    texts: Mapping[str, ShownText] = {FILE: ShownText(name="main.py", text=text)}
    try:
        exec(compile(text, FILE, "exec"), {"__name__": "x", **names})
    except Exception as problem:  # noqa: BLE001 - whatever the text raises
        return find_similar_name(problem, texts)
    raise AssertionError("nothing was raised")


class Thing:
    """A class with a field, and one attribute that raises."""

    kind = "thing"

    def __init__(self) -> None:
        self.colour = "red"


class Hostile(dict[str, int]):
    """Has code of its own wherever a reader may look."""

    @property
    def __dict__(self) -> dict[str, object]:  # type: ignore[override]
        raise SystemExit(3)

    def keys(self) -> object:  # type: ignore[override]
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("[].appned(1)", ("append", True)),
        ("thing.colou", ("colour", True)),
        ("thing.knid", ("kind", True)),
        ("import json\njson.laods", ("loads", True)),
        ("from json import laods", ("loads", True)),
        ("row = {'price': 1}\nrow['prcie']", ("price", True)),
        ("rows = [{'price': 1}]\nrows[0]['prcie']", ("price", True)),
        ("row = {'abcd': 1, 'abce': 2}\nrow['abcf']", ("abcd", False)),
    ],
)
def test_nearest_name_is_found_with_whether_it_is_certain(text: str, answer: tuple[str, bool]) -> None:
    assert meant(text, thing=Thing()) == answer


@pytest.mark.parametrize(
    "text",
    [
        "[].nothing_like_it",
        "None.appned",
        "{'price': 1}[5]",
        "row = {'price': 1}\nrow['quantity']",
        "from json import nothing_like_it",
        "1 / 0",
        "raise KeyError",
        "raise AttributeError('x')",
        "raise KeyError('prcie')",
    ],
)
def test_nothing_is_meant_where_nothing_is_near(text: str) -> None:
    assert meant(text) is None


def test_code_of_a_guests_classes_ends_the_search_and_nothing_else() -> None:
    assert meant("row['prcie']", row=Hostile(price=1)) in {None, ("price", True)}


def test_key_that_is_a_part_of_one_is_meant_and_not_for_certain() -> None:
    assert meant("row['amount']", row={"amount_eur": 1, "id": 2}) == ("amount_eur", False)


def test_names_that_differ_in_their_digits_are_not_meant() -> None:
    assert meant("row['level_3']", row={"level_0": 1, "level_1": 2}) is None


def test_key_of_a_dict_further_in_is_said_with_its_place() -> None:
    raw = {"data": {"items": [1]}, "next": None}
    assert meant("raw['items']", raw=raw) == ("raw['data']['items']", False)
