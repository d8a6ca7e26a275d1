"""The tables of evasions and of legitimate scripts, and properties of every finding."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from assayd.model.finding import Finding
from assayd_pipeline.shell import RULES, ShellCheck

HERE = Path(__file__).parent
Check = Callable[[str], ShellCheck]
FAMILIES: dict[str, list[list[str]]] = tomllib.loads((HERE / "evasions.toml").read_text())["families"]
_PARTS = re.split(r"^#### (.*)\n", (HERE / "legitimate.txt").read_text(), flags=re.MULTILINE)[1:]
LEGITIMATE = dict(zip(_PARTS[::2], _PARTS[1::2], strict=True))
EXAMPLES = {rule.id: rule for rule in RULES if rule.help.startswith("Bad: ") and ". Good: " in rule.help}
NEEDS_A_HOST = {"curl.url"}


@pytest.mark.parametrize("family", FAMILIES)
def test_evasions_of_a_family_meet_their_rule(check: Check, family: str) -> None:
    missed = [
        (rule, script, sorted({f.rule for f in check(script).findings}))
        for rule, script in FAMILIES[family]
        if rule not in {f.rule for f in check(script).findings}
    ]
    assert missed == []


@pytest.mark.parametrize("name", LEGITIMATE)
def test_legitimate_script_passes_without_a_finding(check: Check, name: str) -> None:
    assert check(LEGITIMATE[name]).findings == ()


def test_every_finding_has_a_known_rule_a_place_and_a_remedy(check: Check) -> None:
    known = {rule.id: rule for rule in RULES}
    found = [
        (script, f) for cases in FAMILIES.values() for _, script in cases for f in check(script).findings
    ]
    bad = [(script, f) for script, f in found if not _is_complete(f, script)]
    assert bad == []
    assert {f.rule for _, f in found} <= known.keys()
    assert {(f.rule, f.severity) for _, f in found} <= {(rule.id, rule.severity) for rule in RULES}


def _is_complete(finding: Finding, script: str) -> bool:
    if not finding.suggestion or not finding.message:
        return False
    if finding.rule.startswith("source.") or finding.rule in {"shell.empty", "shell.too_deep"}:
        return True
    lines = script.split("\n")
    line, column = finding.line or 0, finding.column or 0
    return 1 <= line <= len(lines) + 1 and column >= 1 and finding.snippet is not None


@pytest.mark.parametrize("rule", sorted(EXAMPLES))
def test_bad_line_in_a_rules_help_meets_it_and_the_good_one_does_not(
    check: Check, check_open: Check, rule: str
) -> None:
    bad, good = EXAMPLES[rule].help.removeprefix("Bad: ").removesuffix(".").split(". Good: ")
    judge = check_open if rule in NEEDS_A_HOST else check
    assert rule in {f.rule for f in judge(bad).findings}
    assert rule not in {f.rule for f in judge(good).findings}


def test_edit_gives_a_script_that_the_rule_accepts(check: Check) -> None:
    scripts = [
        '/bin/cat "ä" data/x',
        'echo $"text"',
        "gawk 1 data/x",
        "mawk 1 data/x",
        "echo x\r",
    ]
    for script in scripts:
        (finding,) = check(script).findings
        assert finding.edit is not None
        assert check(finding.edit.replacement).findings == ()


def test_findings_come_in_source_order_each_once(check: Check) -> None:
    found = check("rm a\nfor i in 1 2; do nc b; done; rm c\n/bin/rm d").findings
    places = [(f.line, f.column, f.rule) for f in found]
    assert places == [
        (1, 1, "command.blocked"),
        (2, 18, "command.blocked"),
        (2, 30, "command.blocked"),
        (3, 1, "command.path"),
    ]


def test_column_counts_characters(check: Check) -> None:
    (finding,) = check("echo 'äöü'; rm x").findings
    assert (finding.line, finding.column) == (1, 13)


def test_commands_are_named_with_their_lines(check: Check) -> None:
    commands = check("cat data/x |\n  sort\ncommand awk 1 data/x").commands
    assert [(c.name, c.line) for c in commands] == [("cat", 1), ("sort", 2), ("awk", 3), ("command", 3)]


def test_document_lists_every_rule() -> None:
    document = (HERE.parents[3] / "docs/kinds/shell-rules.md").read_text()
    assert [rule.id for rule in RULES if f"`{rule.id}`" not in document] == []


@pytest.mark.parametrize(
    ("script", "hint"),
    [
        ('cp data/a "$OUT/a"\n', "`OUT` has no value here. Assign it before this line: `OUT=tmp`."),
        (
            'OUT=$(cat data/x)\ncp data/a "$OUT/a"\n',
            'Begin the path with a literal folder, e.g. "tmp/$name".',
        ),
        ('cp data/a "$OUT"\n', 'Begin the path with a literal folder, e.g. "tmp/$name".'),
    ],
)
def test_unknown_path_has_the_remedy_for_its_variable(check: Check, script: str, hint: str) -> None:
    found = [each for each in check(script).findings if each.rule == "path.undecided"]
    assert [each.suggestion for each in found] == [hint]
