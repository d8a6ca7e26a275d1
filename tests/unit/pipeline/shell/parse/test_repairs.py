"""Corrections of single lines in scripts that bash can't parse."""

from __future__ import annotations

import pytest

from assayd_pipeline.shell.parse.source import parse_source


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("for f in a b; do\n  echo $f\nfi\n", "done", "ends with `done`"),
        ("if true; then\n  ls\n}\n", "fi", "ends with `fi`"),
        ("scores=(1 2)\nscores[0] = 5\n", "scores[0]=5", "Remove the spaces"),
        ("x=5; if (( x > 3 ) then echo y; fi\n", "x=5; if (( x > 3 )) then echo y; fi", "Close it with `))`"),
        ("a=(1 2)\necho ${a[*}\n", "echo ${a[*]}", "Close it with `]`"),
        ("case $x in\n  a) echo a;;\n  b echo b;;\nesac\n", "  b) echo b;;", "A branch begins"),
        ("case $x\n  in_it) ls;;\nesac\n", "case $x in", "Put `in`"),
        ("x=5; if (( x > 3 )); echo y; fi\n", "x=5; if (( x > 3 )); then echo y; fi", "Put `then`"),
        ("sort data/x |\n", "sort data/x", "Write a command after `|`"),
        ("sort data/x | | head\n", "sort data/x | head", "Write a command after `|`"),
        ("sort data/x\n  | uniq\n  | head\n", "sort data/x \\\n  | uniq \\", "a backslash there"),
        ("echo It's late\n", "echo It\\'s late", "Put a backslash before it"),
    ],
)
def test_one_line_is_corrected(text: str, line: str, hint: str) -> None:
    [finding] = parse_source(text).findings
    assert finding.edit is not None
    assert finding.edit.replacement == line
    assert finding.suggestion is not None
    assert hint in finding.suggestion


def test_script_that_bash_reads_has_no_finding() -> None:
    assert not parse_source("case $x in\n  a) echo 'It is';;\nesac\nsort data/x |\n  head\n").findings
