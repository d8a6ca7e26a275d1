from __future__ import annotations

import ast

import pytest

from assayd.kinds.module import mutants
from assayd.kinds.module.mutants import Mutant, generate_mutants

ADAPTER = '''
import logging

log = logging.getLogger("é")


class A:
    """Says nothing."""

    def fetch(self, page: int = 1) -> dict:
        """Fetch a page."""
        if page < 1:
            raise ValueError(f"page {page + 1}")
        log.info("page %s", page)
        return {"page": page, "é": 2}

    def total(self, rows):
        total = 0
        for row in rows:
            if not row["count"]:
                continue
            total += row["count"] * row["price"]
        self.seen.append(total)
        return total

    def __repr__(self):
        return "A" * 2
'''


def changes(source: str, most: int = 50) -> list[tuple[str, str]]:
    return [(one.was, one.now) for one in generate_mutants(source, most)]


def changed(body: str) -> list[str]:
    """Return the lines of a function's mutants."""
    source = f"def f(a, b):\n{body}"
    return [
        one.text(source).decode().removeprefix("def f(a, b):\n").strip()
        for one in generate_mutants(source, 50)
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = a < b", ["x = a >= b"]),
        ("x = 3 <= a < 9", ["x = 4 <= a < 9", "x = 3 > a < 9", "x = 3 <= a >= 9", "x = 3 <= a < 10"]),
        ("x = a is not b", ["x = a is b"]),
        ("x = a not  in b", ["x = a in b"]),
        ("x = (a) == (b)", ["x = (a) != (b)"]),
        ("x = a and b", ["x = a or b"]),
        ("x = not a", ["x =  a"]),
        ("x = a * b", ["x = a / b"]),
        ("x = a // b", ["x = a * b"]),
        ("x = a + 'text'", ['x = a + ""']),
        ("x = a * 1", ["x = a * 2"]),
        ("a -= b", ["a += b"]),
        ("a.append(b)", ["pass"]),
        ("return a", ["return None"]),
        ("raise a", ["pass"]),
        ("x = True", ["x = False"]),
        ("x = b['k']", ['x = b[""]']),
        ("x: int = 7", ["x: int = 8"]),
    ],
)
def test_each_kind_of_change(line: str, expected: list[str]) -> None:
    assert changed(f"    {line}\n") == expected


@pytest.mark.parametrize(
    "line",
    [
        '"""A docstring."""',
        'print("a", a < b)',
        'log.debug("%s", a + b)',
        'x = f"{a + b} and {a < b}"',
        "x = get(timeout=10)",
        'x = {"description": "what people read"}',
        "x: 'A < B'",
        "return None",
        "import json",
    ],
)
def test_what_changes_nothing_that_a_test_should_check_stays(line: str) -> None:
    assert changed(f"    pass\n    {line}\n") == []


def test_code_that_the_compiler_drops_has_no_change() -> None:
    assert changed("    if False:\n        b = a < b\n    a.b()\n")[-1].endswith("pass")
    assert not any("a >= b" in one for one in changed("    if False:\n        b = a < b\n"))


def test_the_message_of_an_exception_stays() -> None:
    assert changed('    raise ValueError("a" + b)\n') == ["pass"]


def test_changes_are_of_each_function_in_turn_and_of_different_lines() -> None:
    found = generate_mutants(ADAPTER, 6)
    assert [one.line for one in found] == [12, 13, 15, 20, 22, 24]
    assert not any("__repr__" in ADAPTER.split("\n")[one.line - 1] for one in found)


def test_the_same_text_gives_the_same_changes() -> None:
    assert generate_mutants(ADAPTER, 10) == generate_mutants(ADAPTER, 10)
    assert generate_mutants(ADAPTER, 0) == []


def test_every_change_compiles_and_touches_one_place() -> None:
    for one in generate_mutants(ADAPTER, 50):
        text = one.text(ADAPTER).decode()
        ast.parse(text)
        before, after = ADAPTER.encode()[: one.start], ADAPTER.encode()[one.end :]
        assert text.encode() == before + one.now.encode() + after
        assert ADAPTER.encode()[one.start : one.end].decode() == one.was


def test_a_change_knows_its_statement() -> None:
    source = "def f(a):\n    return g(\n        a,\n        7,\n    )\n"
    number = next(one for one in generate_mutants(source, 50) if one.was == "7")
    assert (number.line, number.statement) == (4, 2)


def test_no_change_is_made_of_a_file_without_functions() -> None:
    assert changes("X = 1 + 2\n") == []


def test_a_very_large_file_has_none() -> None:
    assert changes("def f(a):\n" + "    a += 2\n" * 20_000) == []


@pytest.mark.slow
def test_a_large_adapter_gets_as_many_changes_as_compile_in_about_a_second() -> None:
    method = (
        "    def m{0}(self, a):\n        if a < {0}:\n            return a + {0}\n        return [a, a]\n\n"
    )
    sizes = (20, 1000)
    found = [
        len(generate_mutants("class A:\n" + "".join(method.format(n) for n in range(size)), 50))
        for size in sizes
    ]
    assert found[0] == 50
    assert 5 < found[1] < 25


def test_many_small_functions_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    finder = mutants._MutantFinder

    def counted(source: str) -> mutants._MutantFinder:
        texts.append(source)
        return finder(source)

    monkeypatch.setattr(mutants, "_MutantFinder", counted)
    source = "".join(f"def f{n}(a):\n    a.b()\n" for n in range(100))
    assert len(generate_mutants(source, 50)) == 50
    assert texts == [source]


def test_a_number_too_long_to_write_stays() -> None:
    assert changes(f"def f(a):\n    return a(0x{'f' * 5000}, 1e308)\n") == [
        (f"a(0x{'f' * 5000}, 1e308)", "None")
    ]


def test_a_change_is_a_plain_value() -> None:
    (one,) = generate_mutants("def f(a):\n    return a\n", 1)
    assert Mutant.model_validate(one.model_dump()) == one
