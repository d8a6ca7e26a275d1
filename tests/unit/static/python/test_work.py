"""Source that is too expensive to compile is refused before it is compiled, and similar source isn't."""

from __future__ import annotations

import ast

import pytest

from assayd.static.python.safe_fixes import parse_or_none
from assayd.static.python.source import parse_source
from assayd.static.python.work import is_slow_to_compile, is_slow_to_parse


def refused(text: str) -> list[str]:
    return [finding.rule for finding in parse_source(text).findings]


GLOBALS = "".join(f"def f{n}():\n    global a{n}\n" for n in range(6000))
LOCALS = "def f():\n" + "".join(f"    v{n} = lambda: 1\n" for n in range(6000))


@pytest.mark.parametrize("text", [GLOBALS, LOCALS])
def test_many_scopes_that_see_many_names_are_too_complex(text: str) -> None:
    assert refused(text) == ["source.too_complex"]
    assert parse_or_none(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"def f{n}(a, b):\n    global total\n    total = a\n" for n in range(6000)),
        "class C:\n"
        + "".join(
            f"    def f{n}(self):\n        x = 1\n        return [x for x in y]\n" for n in range(3000)
        ),
        "".join(f"v{n} = lambda: {n}\n" for n in range(6000)),
    ],
)
def test_many_functions_of_few_names_are_read(text: str) -> None:
    assert not is_slow_to_compile(ast.parse(text))


@pytest.mark.parametrize("opening", ['f"', "rf'", 'F"""', "fr'''"])
def test_f_string_of_many_pieces_is_too_complex(opening: str) -> None:
    quote = opening.lstrip("rfF")
    assert refused(f"a = 1\nx = {opening}{'{a}' * 40_000}{quote}\n") == ["source.too_complex"]


@pytest.mark.parametrize(
    "text",
    [
        'f"{a}" ' * 30_000,
        "x = '" + "{a}" * 40_000 + "'",
        "# f'" + "{a}" * 40_000,
        "{'a': {}}," * 30_000,
        "f'" + "a" * 200_000 + "{b}'",
    ],
)
def test_pieces_that_are_not_of_one_f_string_are_read(text: str) -> None:
    assert not is_slow_to_parse(text)
