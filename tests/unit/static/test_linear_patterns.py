"""Patterns on untrusted text take time in proportion to its length, not to its square."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from assayd.static.python.model_answer import extract_code
from assayd.static.python.safe_fixes import add_print_parentheses, extract_fenced_text
from assayd_fifth.judging import build_error_finding
from assayd_fifth.language import get_language

SIZE = 100_000


def gforth_error(text: str) -> object:
    return build_error_finding(f"a.fs:1: Undefined word\n{text}\n", "", get_language())


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (extract_code, "~" * SIZE + "`"),
        (extract_code, "```a\n" * (SIZE // 5)),
        (extract_fenced_text, "~" * SIZE + "`\nx\n```"),
        (add_print_parentheses, "print x" + " " * SIZE + "y"),
        (add_print_parentheses, "'" + "\\'" * SIZE),
        (gforth_error, ">" * SIZE),
        (gforth_error, ">>> " * SIZE),
    ],
)
def test_reading_takes_time_by_the_length_alone(read: Callable[[str], object], text: str) -> None:
    began = time.process_time()
    read(text)
    assert time.process_time() - began < 2
