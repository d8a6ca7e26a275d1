"""Slips in bash: the meaning, line and edit of each ShellCheck comment."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.unit.pipeline.shell.conftest import Check

from assayd.model.finding import Finding, Severity
from assayd_chains.providers.rules import apply_edits
from assayd_pipeline.shell import parse_script
from assayd_pipeline.shell.parse import reader
from assayd_pipeline.shell.slips import load_mistake_table
from assayd_pipeline.worker import lint_shell

TEXT = "if [ -s x ] then\n  ls\nfi\n"


def corrected(text: str, finding: Finding) -> str:
    assert finding.edit is not None, finding
    return apply_edits(text, [finding.edit])


@pytest.mark.parametrize(
    ("text", "line", "words", "right"),
    [
        (TEXT, 1, "`then` is on the line", "if [ -s x ]; then\n  ls\nfi\n"),
        ("for n in 1 2\n  ls\ndone\n", 1, "no `do`", "for n in 1 2; do\n  ls\ndone\n"),
        (
            "while read -r x; do\n  ls\nwc -l x\n",
            1,
            "no `done`",
            "while read -r x; do\n  ls\ndone\nwc -l x\n",
        ),
        ("if true; then\n  ls\nfi\nfi\n", 4, "closes nothing", "if true; then\n  ls\nfi\n\n"),
        ('f() { ls; }\nf("a", 2)\n', 2, "isn't a call", 'f() { ls; }\nf "a" 2\n'),
        ("cat <<EOF\nx\nEOF \nls\n", 3, "space after the word", "cat <<EOF\nx\nEOF\nls\n"),
        ('echo "x $(head data/a"\nls\n', 1, "`$(` on line 1 isn't closed", 'echo "x $(head data/a)"\nls\n'),
        ('a=x\nls "${a%/*"\n', 2, "`${` isn't closed", 'a=x\nls "${a%/*}"\n'),
    ],
)
def test_script_that_bash_cannot_read_names_the_slip(text: str, line: int, words: str, right: str) -> None:
    [finding] = parse_script(text)
    assert (finding.rule, words in finding.message) == ("shell.syntax", True)
    assert corrected(text, finding) == right
    assert finding.line == line


def test_spaces_around_equals_replace_the_list_of_allowed_commands(check: Check) -> None:
    text = "limit = 5\nhead -n 5 data/x\n"
    [finding] = check(text).findings
    assert (finding.rule, finding.line, finding.context) == ("command.not_allowed", 1, "ShellCheck SC2283")
    assert corrected(text, finding).startswith("limit=5\n")


@pytest.mark.parametrize(
    ("text", "rule", "right"),
    [
        ("let n = 5 + 3\n", "shell.undecided", "n=$((5 + 3))\n"),
        ("let n += 5\n", "shell.undecided", "n=$((n + (5)))\n"),
        ("n=$(3 + 4)\n", "command.not_allowed", "n=$((3 + 4))\n"),
        ("sort data/x > tmp/a 2&>1\n", "shell.suspicious", "sort data/x > tmp/a 2>&1\n"),
        ("r=a\ngrep '^$r' data/x\n", "shell.suspicious", 'r=a\ngrep "^$r" data/x\n'),
    ],
)
def test_form_of_arithmetic_redirection_or_quotes_is_corrected(
    check: Check, text: str, rule: str, right: str
) -> None:
    [finding] = check(text).findings
    assert finding.rule == rule
    assert corrected(text, finding) == right


def test_decimals_in_arithmetic_are_named(check: Check) -> None:
    [finding] = check("n=2\necho $((n * 1.5))\n").findings
    assert "integers only" in finding.message


@pytest.mark.parametrize(
    "text", ["grep '$r' data/x\n", "r=a\nawk -v r=\"$r\" '$1 == r' data/x\n", "grep 'a$' data/x\n"]
)
def test_dollar_in_single_quotes_of_a_pattern_or_program_is_fine(check: Check, text: str) -> None:
    assert check(text).findings == ()


def test_form_that_means_something_else_is_a_warning(check: Check) -> None:
    [finding] = check('names=(a b)\necho "$names[0]"\n').findings
    assert (finding.rule, finding.severity) == ("shell.suspicious", Severity.WARNING)
    assert "${names[0]}" in str(finding.suggestion)


def test_local_outside_of_a_function_is_an_error(check: Check) -> None:
    [finding] = check("local total=0\necho $total\n").findings
    assert (finding.rule, finding.severity, finding.line) == ("shell.mistake", Severity.ERROR, 1)


def test_local_inside_of_a_function_passes(check: Check) -> None:
    assert check("f() {\n  local total=0\n  echo $total\n}\nf\n").findings == ()


def test_misspelt_command_gets_one_name_and_an_edit(check: Check) -> None:
    text = "mkdri -p tmp/x\n"
    [finding] = check(text).findings
    assert (finding.suggestion, corrected(text, finding)) == ("Did you mean `mkdir`?", "mkdir -p tmp/x\n")


@pytest.fixture
def _no_linter() -> Iterator[None]:
    reader.install_linter(lambda text: ())
    yield
    reader.install_linter(lint_shell)


@pytest.mark.usefixtures("_no_linter")
def test_without_shellcheck_the_parser_explains() -> None:
    [finding] = parse_script(TEXT)
    assert (finding.rule, finding.context) == ("shell.syntax", None)


def test_every_entry_of_the_table_compiles_and_formats() -> None:
    for slip in load_mistake_table():
        groups = [""] * (re.compile(slip.find).groups + 3)
        values = {"word": "x", "line": 1, "op": "gt"}
        assert slip.message.format(*groups, **values)
        assert slip.hint.format(*groups, **values).endswith((".", "`.", ")."))
        assert slip.level in {"error", "warning", "never"}
