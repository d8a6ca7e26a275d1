"""A repair's failures as lines for a person."""

from __future__ import annotations

from assayd_client.cli.repair import LINE_CHARS, iter_failure_lines

ONE = """\
The code is not valid Python:

1. line 1: expected ':' [syntax]
   Fix: Add it.

Keep in mind:
- No network.
"""
TWO = ONE.replace("\n\nKeep", "\n2. line 3: 'x' is not defined \x1b[0m" + "y" * 300 + "\n\nKeep")


def test_single_finding_is_told_in_the_same_line() -> None:
    assert list(iter_failure_lines(ONE)) == ["failed: line 1: expected ':' [syntax]"]


def test_each_of_several_findings_has_its_line_and_the_rest_of_the_context_none() -> None:
    head, first, second = iter_failure_lines(TWO)
    assert (head, first) == ("failed:", "  1. line 1: expected ':' [syntax]")
    assert second.startswith("  2. line 3: 'x' is not defined \\x1b[0myyy")
    assert len(second) == LINE_CHARS + 2


def test_context_without_findings_is_told_by_its_first_line() -> None:
    assert list(iter_failure_lines("It timed out.\nMore.")) == ["failed: It timed out."]
    assert list(iter_failure_lines("")) == ["failed:"]
