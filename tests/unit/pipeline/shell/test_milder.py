"""What the rules leave to the run, because the container refuses it, and what they don't."""

from __future__ import annotations

import pytest

from assayd.model.finding import Severity
from assayd_pipeline.shell import parse_script
from unit.pipeline.shell.conftest import Check


@pytest.mark.parametrize(
    "script",
    [
        "echo $(( a $op b ))",
        "for ((i=start; i*i $cond n; i+=step)); do echo $i; done",
        "x=$(( $1 $2 $3 )); echo $((a $op b))",
    ],
)
def test_arithmetic_with_an_operator_in_a_variable_is_a_warning(check: Check, script: str) -> None:
    found = parse_script(script)
    assert {(f.rule, f.severity) for f in found} == {("shell.undecided", Severity.WARNING)}
    assert check(script).findings == ()


@pytest.mark.parametrize(
    "script",
    [
        "echo $(( a $(rm x) b ))",
        "echo $(( a[$x] $op b ))",
        "echo $(( a `rm x` $op b ))",
        "echo $(( a ${x@P} $op b ))",
        "echo $(( a ${x:-$(rm y)} $op b ))",
        "let x=( a + b )",
    ],
)
def test_arithmetic_that_may_run_a_command_is_an_error(script: str) -> None:
    assert [f.severity for f in parse_script(script)] == [Severity.ERROR]


def test_what_follows_undecided_arithmetic_is_judged_at_its_own_place(check: Check) -> None:
    (finding,) = check("echo $(( ab $op b ))\necho $(( a $op b )); rm x").findings
    assert (finding.rule, finding.line, finding.column) == ("command.blocked", 2, 22)


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        ('sed "$x" data/f', "sed.dynamic"),
        ('awk "$x" data/f', "awk.dynamic"),
        ("trap frob EXIT; echo x", "command.not_allowed"),
    ],
)
def test_program_that_is_known_only_then_is_a_warning(check: Check, script: str, rule: str) -> None:
    assert [(f.rule, f.severity) for f in check(script).findings] == [(rule, Severity.WARNING)]


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        ("sed '1e ls' data/f; sed 's/a/ls/e' data/f", "sed.execute"),
        ("awk '{ system(\"ls\") }' data/f", "awk.execute"),
        ("trap 'rm x' EXIT; echo x", "command.blocked"),
        ("frob", "command.not_allowed"),
        ("\\rm x", "command.blocked"),
        ("/bin/c'a't x", "command.path"),
        ("cat /tmp/../etc/passwd", "path.outside"),
        ("cat /tmpx", "path.outside"),
    ],
)
def test_neighbor_that_the_run_does_not_catch_stays_an_error(check: Check, script: str, rule: str) -> None:
    assert (rule, Severity.ERROR) in {(f.rule, f.severity) for f in check(script).findings}
