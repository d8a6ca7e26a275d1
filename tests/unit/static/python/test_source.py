from __future__ import annotations

import pytest

from assayd.static.python.source import find_mentioned_modules, is_valid_python, parse_source


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("x = 1\n" * 900_000, "source.too_large"),
        ("x = '" + "ü" * 600_000 + "'", "source.too_large"),
        ("x = 1\0", "source.nul_byte"),
        ("x = '\ud800'", "source.not_text"),
        ("", "source.empty"),
        ("\n\n  \n", "source.empty"),
        ("# nothing\n", "source.empty"),
        ('"""Only a docstring."""\n', "source.empty"),
        ("x\n" * 110_000, "source.too_complex"),
    ],
)
def test_text_that_must_not_reach_the_compiler_is_refused(text: str, rule: str) -> None:
    source = parse_source(text)
    assert source.tree is None
    [finding] = source.findings
    assert finding.rule == rule
    assert finding.suggestion


def test_the_line_of_a_nul_byte_is_given() -> None:
    [finding] = parse_source("x = 1\ny = 2\nz = '\0'\n").findings
    assert finding.line == 3


def test_code_of_the_largest_size_is_read() -> None:
    text = "x = 1\n" + "#" * (2**20 - 6)
    assert len(text) == 2**20
    assert parse_source(text).tree is not None


def test_the_same_text_is_parsed_once() -> None:
    assert parse_source("x = 17\n") is parse_source("x = 17\n")


def test_compiling_inherits_no_future_of_ours() -> None:
    assert is_valid_python("def f(x: 1 / 0): pass\n")
    assert not is_valid_python("return 1\n")


def test_modules_are_found_however_they_are_imported() -> None:
    text = "import re, json as j\nfrom os import path\nfrom collections.abc import Mapping\n"
    assert find_mentioned_modules(("re", "json", "os.path", "collections.abc", "csv"), text) == (
        "re",
        "json",
        "os.path",
        "collections.abc",
    )


def test_a_part_of_a_word_is_no_module() -> None:
    assert find_mentioned_modules(("re", "io"), "more = ratio") == ()
