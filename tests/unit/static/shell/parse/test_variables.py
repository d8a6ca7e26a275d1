"""What arithmetic in the arguments of `let` assigns to."""

from __future__ import annotations

import pytest

from assayd.static.shell.parse import variables


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x=1", ["x"]),
        ("x += 1, y <<= 2", ["x", "y"]),
        ("a[i]=2", ["a"]),
        ("a[b[1]] = 2", ["a"]),
        ("x[i=2]", ["i"]),
        ("a==b", []),
        ("a<=b", []),
        ("a!=b", []),
        ("a = b = 3", ["a", "b"]),
        ("]=1", []),
    ],
)
def test_names_before_an_assignment_are_set(text: str, names: list[str]) -> None:
    assert list(variables._set_in(text)) == names


@pytest.mark.parametrize("piece", ["a[", "a", "a ", "[", "a]"])
def test_every_character_is_taken_once(piece: str) -> None:
    text = piece * 1000
    taken = list(variables._LET.finditer(text))
    assert "".join(found[0] for found in taken) == text
