"""Scripts that can't be parsed: the edit if one word is missing in one place, and none in doubt."""

from __future__ import annotations

import pytest

from assayd_chains.providers.rules import apply_edits
from assayd_pipeline.shell import parse_script
from assayd_pipeline.shell.parse.source import parse_source


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("if [ -s x ]; then\n  cat x\n", "if [ -s x ]; then\n  cat x\nfi\n"),
        ("if a; then\n  b\nelse\n  c\n", "if a; then\n  b\nelse\n  c\nfi\n"),
        ("ls\nwhile read -r x; do\n  echo $x\n", "ls\nwhile read -r x; do\n  echo $x\ndone\n"),
        ("if [ -s x ]\n  cat x\nfi\n", "if [ -s x ]; then\n  cat x\nfi\n"),
        ("```bash\ncat x\n```\n", "cat x\n"),
        ("whiel read -r x; do\n  echo $x\ndone\n", "while read -r x; do\n  echo $x\ndone\n"),
        ("if [ -s x ]; tehn\n  cat x\nfi\n", "if [ -s x ]; then\n  cat x\nfi\n"),
        ("for x in a; do\n  echo $x\ndoen\necho z\n", "for x in a; do\n  echo $x\ndone\necho z\n"),
        ('echo "total\necho "b"\nx="c"\n', 'echo "total"\necho "b"\nx="c"\n'),
        ("names=(a b\nfor x in a; do ls; done\n", "names=(a b)\nfor x in a; do ls; done\n"),
        ("```sh\nif [ a ]; then b; fi\n```", "if [ a ]; then b; fi\n"),
    ],
)
def test_edit_makes_bash_of_the_text(text: str, mended: str) -> None:
    [finding] = parse_source(text).findings
    assert finding.rule == "shell.syntax"
    assert finding.edit is not None
    assert apply_edits(text, [finding.edit]).rstrip("\n") == mended.rstrip("\n")
    assert parse_script(mended) == ()


@pytest.mark.parametrize(
    "text",
    [
        "if [ -s x ]; then\n  cat x\necho end\n",  # fi before the last line, or behind it
        "if true; then\n",  # nothing is in it
        "if [ -s x ]\nif [ -s y ]\n  cat x\nfi\nfi\n",
        "for x in a b; do\n  if c; then\n    d\n  fi\nif e; then\n  f\n",
        "ls\nfi\n",
        'echo "a" | grep "b | sort\necho "c"\n',  # the quote may stand before the pipe
        "f() {\n  ls\n\ng() {\n  ls\n}\n",
        "```bash\nls\n```\n```bash\ncat x\n```\n",
    ],
)
def test_no_edit_where_a_doubt_is_left(text: str) -> None:
    assert all(finding.edit is None for finding in parse_source(text).findings)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('ls\necho "a\ncat "x" | grep "y"\n', 2),
        ("f() {\n  ls\n\ng() {\n  ls\n}\n", 3),
        ("x=1\nnames=(a b\nfor x in a; do ls; done\n", 2),
    ],
)
def test_a_finding_stands_where_something_is_missing(text: str, line: int) -> None:
    assert [finding.line for finding in parse_source(text).findings] == [line]
