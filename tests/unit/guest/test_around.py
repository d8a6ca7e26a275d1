"""The values of names on a failing line: built-in types are shown, and no guest code runs."""

from __future__ import annotations

import datetime
from pathlib import PurePosixPath

import pytest

from assayd.guest.failures import ShownText, render_line_values

FILE = "<submitted>"


def values(text: str, **names: object) -> dict[str, str]:
    """Run a text that raises; return the values of its line."""
    texts = {FILE: ShownText(name="main.py", text=text)}
    try:
        exec(compile(text, FILE, "exec"), {"__name__": "x", **names})
    except Exception as problem:  # noqa: BLE001 - whatever the text raises
        return render_line_values(problem, texts)
    raise AssertionError("nothing was raised")


class Hostile:
    """Ends the process if it is printed."""

    def __repr__(self) -> str:
        raise SystemExit(3)


class Text(str):
    """A string with code of its own."""

    __slots__ = ()

    def __repr__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "None"),
        (12.5, "12.5"),
        ("a" * 70, "'" + "a" * 60 + "'…"),
        (2**4000, "an int of 4001 bits"),
        ({"id": 1, "amount_eur": 12.5}, "{'id': 1, 'amount_eur': 12.5}"),
        ([], "[]"),
        (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, … 20 in all]"),
        ({"a": {"b": {"c": [1]}}}, "{'a': {'b': {…}}}"),
        ({3, 1}, "{1, 3}"),
        ([Hostile()], "[<Hostile>]"),
        (datetime.datetime(2024, 5, 2, tzinfo=datetime.UTC), "2024-05-02 00:00:00+00:00"),
        (PurePosixPath("/a/b"), "PurePosixPath('/a/b')"),
        ((n for n in "ab"), "a generator"),
    ],
)
def test_values_of_builtin_types_are_shown(value: object, shown: str) -> None:
    assert values("given = row\nrow[0].x.y.z", row=value)["row"] == shown


@pytest.mark.parametrize("value", [Hostile(), Text("x"), len, datetime, Hostile])
def test_nothing_else_is_shown_and_no_code_of_a_class_runs(value: object) -> None:
    assert values("row.x.y", row=value) == {}


def test_names_are_those_of_the_line_that_failed_in_the_text() -> None:
    text = "import json\ndef f(a, b):\n    c = a\n    return json.loads(b)\nf(1, 'x')\n"
    assert values(text) == {"b": "'x'"}


def test_at_most_five_names_are_shown() -> None:
    names = dict.fromkeys("abcdefg", 1)
    assert len(values("x = [a, b, c, d, e, f, g][9]", **names)) == 5
