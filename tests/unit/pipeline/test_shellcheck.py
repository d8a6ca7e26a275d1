"""ShellCheck's comments on texts, and that no text takes too long."""

from __future__ import annotations

import time

import pytest

from assayd_pipeline import worker
from assayd_pipeline.worker import TEXT_BYTES, lint_shell


def test_slip_gets_its_code_and_its_place() -> None:
    [comment] = [one for one in lint_shell("x = 5\n") if one.code == 2283]
    assert (comment.line, comment.column) == (1, 3)


def test_directive_in_the_script_is_no_more_than_a_hint_less() -> None:
    assert all(one.code != 2283 for one in lint_shell("# shellcheck disable=SC2283\nx = 5\n"))


def test_script_over_the_limit_is_not_read() -> None:
    assert lint_shell("x = 5\n" * (TEXT_BYTES // 6 + 1)) == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["$(" * 20_000, "((" * 15_000, "{ " * 30_000, "`" * 60_000, "[[ ( " * 10_000, "\0", "é" * 100]
)
def test_text_that_is_too_much_gets_no_comments_in_time(text: str) -> None:
    began = time.monotonic()
    lint_shell(text)
    assert time.monotonic() - began < 10


def test_answer_of_another_form_is_no_comment() -> None:
    assert worker._parse_comments(b'{"comments": [{"code": 1}]}') == ()
    assert worker._parse_comments(b"[]") == ()
    assert worker._parse_comments(b"no JSON") == ()
