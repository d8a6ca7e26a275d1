"""Mistakes that bash accepts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from assayd_pipeline.shell import ShellCheck

Check = Callable[[str], ShellCheck]


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("head \u2013n 2 data/a", "head -n 2 data/a"),
        ("sort \u2014reverse data/a", "sort --reverse data/a"),
        ("wc -l\u200b data/a", "wc -l data/a"),
        ("date +%Y-%m-%d %H:%M", "date '+%Y-%m-%d %H:%M'"),
        ("ls data | xargs -I wc -l {}", "ls data | xargs -I {} wc -l {}"),
        ("set -eu pipefail", "set -euo pipefail"),
        ('total=5; echo "$totl"', 'total=5; echo "$total"'),
        ('x=1; [ "$x" -eq north ]', 'x=1; [ "$x" = north ]'),
        ("ages[oslo]=3", "declare -A ages\nages[oslo]=3"),
        ("x=1; unset $x", "x=1; unset x"),
        ("jq -r .items[] | .name data/a", "jq -r '.items[] | .name' data/a"),
        ("var x = 5", "x=5"),
        ("if not grep -q a data/a; then ls; fi", "if ! grep -q a data/a; then ls; fi"),
        ("sed 's/a/b' data/a", "sed 's/a/b/' data/a"),
        ('p=data/a; sed "s/a/$p/" data/b', 'p=data/a; sed "s|a|$p|" data/b'),
        ("awk '{ n++  END { print n }' data/a", "awk '{ n++ }  END { print n }' data/a"),
        ('awk "{ print $2 }" data/a', "awk '{ print $2 }' data/a"),
        ("awk '$2 = \"b\"' data/a", "awk '$2 == \"b\"' data/a"),
        ("if [ -s data/a ] or [ -s data/b ]; then ls; fi", "if [ -s data/a ] || [ -s data/b ]; then ls; fi"),
        ("n=1; if (( n = 3 )); then ls; fi", "n=1; if (( n == 3 )); then ls; fi"),
        ("n=1; [ n -lt 3 ]", 'n=1; [ "$n" -lt 3 ]'),
        ('for f in "data/*.csv"; do wc -l "$f"; done', 'for f in data/*.csv; do wc -l "$f"; done'),
        ("for x in a, b; do echo $x; done", "for x in a b; do echo $x; done"),
        ("for x in [a b]; do echo $x; done", "for x in a b; do echo $x; done"),
        ("i=0; i=$i+1", "i=0; i=$((i + 1))"),
        ("x=[1,2]", "x=(1 2)"),
        ("set x = 5", "x=5"),
        ("x= 5", "x=5"),
        ("x := 5", "x=5"),
        ("[ -s data/a ] ls", "[ -s data/a ] && ls"),
        ("awk {print $1} data/a", "awk '{print $1}' data/a"),
        ("if ! -f data/a; then ls; fi", "if ! [ -f data/a ]; then ls; fi"),
        ("sort data/a 2>&1 > tmp/b", "sort data/a > tmp/b 2>&1"),
        ("a=(x y); echo ${#a}", "a=(x y); echo ${#a[@]}"),
        ('wc -l <<< "data/a"', 'wc -l < "data/a"'),
        ("sum=0; sum += 5; echo $sum", "sum=0; ((sum += 5)); echo $sum"),
        ("sum = 5; echo $sum", "sum=5; echo $sum"),
    ],
)
def test_edit_writes_what_was_meant(check: Check, text: str, corrected: str) -> None:
    edits = [one.edit.replacement for one in check(text).findings if one.edit is not None]
    assert corrected in edits


@pytest.mark.parametrize(
    "text",
    [
        "date '+%F %H:%M'",
        "ls data | xargs -I {} wc -l {}",
        "set -euo pipefail",
        "for x in a b; do echo $x; done; declare -i n=0; n=n+1",
        'dir=data; dir=$dir/sub; name=a; name=$name-1; echo "$dir$name"',
        "if (( 1 == 3 )); then ls; fi",
        "awk '{ if ($1 == 5) print; while ((getline x) > 0) n++ }' data/a",
        'total=5; totals=6; echo "$totals"',
        'x=1; [ "$x" -eq 2 ]',
        "declare -A ages; ages[oslo]=3; i=0; list[i]=4",
        "awk '$1 = $1' data/a; awk '$2 == \"b\" { $3 = 4 } 1' data/a",
        'show() { awk "{ print $1 }" data/a; }; show 2',
        "sed 's/a/b/w tmp/c' data/a; sed 's|/|_|g; s/x/y/' data/a",
        'echo "a \u2013 b"',
        "read -r name < data/a; echo $name",
    ],
)
def test_right_form_is_not_reported(check: Check, text: str) -> None:
    told = [one for one in check(text).findings if one.rule != "awk.dynamic"]
    assert told == []


@pytest.mark.parametrize(
    "text",
    [
        'word=abc; echo "${#word}"',
        "a=(x y); echo ${#a[@]} ${#a[1]}",
        'read -r a b <<< "1 2"; echo "$a $b"',
        "wc -c <<< tmp",
        "factor = 5 > tmp/x || true",
    ],
)
def test_neighbour_of_a_mistake_is_left_alone(check: Check, text: str) -> None:
    assert [one.message for one in check(text).findings if one.rule == "shell.suspicious"] == []
