"""Advice about a step beyond its error class."""

from __future__ import annotations

import pytest

from assayd_pipeline.errors import (
    explain_exit_status,
    find_endless_loops,
    suggest_for_silent_failure,
    suggest_for_waiting_loop,
    suggest_similar_path,
)


def test_silent_failure_names_the_command_that_answers_by_its_status() -> None:
    words, line = suggest_for_silent_failure("set -euo pipefail\n# grep here\nn=$(grep X data/a | wc -l)\n")
    assert "grep in line 3 exits with 1 if no line matches" in words
    assert line == 3


def test_silent_failure_of_several_or_none_has_no_line() -> None:
    assert suggest_for_silent_failure('[ -s x ]\ntest "$a" = b\n')[1] is None
    words, line = suggest_for_silent_failure("sort data/a\n")
    assert ("set -x" in words, line) == (True, None)


@pytest.mark.parametrize("line", ["until [ -f x.flag ]; do", 'while ! test -e "x.flag"; do'])
def test_loop_that_waits_for_a_file_is_removed(line: str) -> None:
    words = "Remove the loop on line 2: no other process runs that could create `x.flag`."
    assert suggest_for_waiting_loop(f"set -e\n{line}\n  sleep 1\ndone\n") == (words, 2)


def test_loop_that_waits_for_no_file_has_no_advice_but_its_line() -> None:
    content = "n=1\nwhile [ $n -gt 0 ]; do\n  n=$((n + 1))\ndone\n"
    assert (suggest_for_waiting_loop(content), find_endless_loops(content)) == (None, [2])


def test_file_that_is_not_there_is_compared_with_those_that_are_named() -> None:
    message = 'unable to open "tmp/cleaned.csv": No such file or directory'
    assert "Did you mean tmp/clean.csv?" in (suggest_similar_path(message, ["awk x > tmp/clean.csv"]) or "")
    assert suggest_similar_path(message, ["data/other.txt"]) is None


def test_variable_of_the_shell_that_awk_takes_for_a_field_comes_first() -> None:
    words, line = suggest_for_silent_failure("min=1\nawk '$2 >= $min' data/x > tmp/y\ntest -s tmp/y\n")
    assert ('awk -v min="$min"' in words, line) == (True, 2)
    other, _ = suggest_for_silent_failure("min=1\nawk -v min=\"$min\" '$2 >= min' data/x\ntest -s tmp/y\n")
    assert "awk" not in other


def test_exit_of_the_step_itself_is_named() -> None:
    assert explain_exit_status("a\nif b; then exit 1; fi\n", 1) == " Line 2 ends the step with exit 1."
    assert explain_exit_status("exit 2\n", 1) == ""
