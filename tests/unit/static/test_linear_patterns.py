"""Patterns on untrusted text take time in proportion to its length, not to its square."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from assayd.static.python.model_answer import clean
from assayd.static.python.safe_fixes import call_print, text_inside_fences
from assayd_fifth.judging import error_finding
from assayd_fifth.language import language

SIZE = 100_000


def gforth_error(text: str) -> object:
    return error_finding(f"a.fs:1: Undefined word\n{text}\n", "", language())


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (clean, "~" * SIZE + "`"),
        (clean, "```a\n" * (SIZE // 5)),
        (text_inside_fences, "~" * SIZE + "`\nx\n```"),
        (call_print, "print x" + " " * SIZE + "y"),
        (call_print, "'" + "\\'" * SIZE),
        (gforth_error, ">" * SIZE),
        (gforth_error, ">>> " * SIZE),
    ],
)
def test_reading_takes_time_by_the_length_alone(read: Callable[[str], object], text: str) -> None:
    began = time.process_time()
    read(text)
    assert time.process_time() - began < 2
