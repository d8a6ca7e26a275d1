"""What a misspelt name was meant to be."""

from __future__ import annotations

import pytest

from assayd.findings.near_names import Near, nearest_name, steps_between


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [
        ("prats", "parts", 1),
        ("part", "parts", 1),
        ("partss", "parts", 1),
        ("pants", "parts", 1),
        ("Parts", "parts", 1),
        ("aprst", "parts", 2),
        ("a", "xyz", 3),
    ],
)
def test_steps_count_swapped_letters_as_one(one: str, other: str, steps: int) -> None:
    assert steps_between(one, other) == steps_between(other, one) == steps


@pytest.mark.parametrize(
    ("name", "circles", "fitting", "near"),
    [
        ("statr", [{"start"}, {"setattr"}], (), Near(name="start", certain=True)),
        ("chra", [{"char"}, {"chr"}], {"char"}, Near(name="char", certain=False)),
        ("worsd", [{"words", "word"}], (), Near(name="word", certain=False)),
        ("lne", [{"line", "lines"}, {"len"}], {"line"}, Near(name="line", certain=False)),
        ("lne", [{"total"}, {"len"}], {"len"}, Near(name="len", certain=True)),
        ("xy", [{"yx"}], (), Near(name="yx", certain=False)),
        ("wholly_other", [{"parts"}], (), None),
        ("a" * 50, [{"a" * 49}], (), None),
    ],
)
def test_the_nearest_name_is_found(
    name: str, circles: list[set[str]], fitting: set[str], near: Near | None
) -> None:
    assert nearest_name(name, circles, fitting) == near


def test_no_more_than_some_hundred_names_of_a_scope_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def count(one: str, other: str) -> int:
        compared.append(other)
        return 9

    monkeypatch.setattr("assayd.findings.near_names.steps_between", count)
    assert nearest_name("words", [{f"x{n:04}" for n in range(5000)}]) is None
    assert len(compared) == 400
