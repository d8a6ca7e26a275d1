"""The meaning of error messages from bash and its tools."""

from __future__ import annotations

import pytest

from assayd_pipeline.judging import explain_message


@pytest.mark.parametrize(
    ("said", "content", "line", "hint", "corrected"),
    [
        (
            "head: invalid number of lines: 'data/a'",
            "ls\nhead -n data/a\n",
            2,
            "`-n` takes a number. Write `head -n 10 data/a`.",
            "head -n 10 data/a",
        ),
        (
            'scripts/01_a.sh: line 2: 09: value too great for base (error token is "09")',
            "m=09\nn=$((m + 1))\n",
            2,
            "Write `n=$((10#m + 1))`.",
            None,
        ),
        ("tr: extra operand 'data/a'", "tr a b data/a", 1, "standard input only", "tr a b < data/a"),
        (
            "sed: can't read s/b/c/: No such file or directory",
            "sed -i '' 's/b/c/' data/a",
            1,
            "Write `sed -i 's/b/c/' data/a`.",
            "sed -i 's/b/c/' data/a",
        ),
        (
            "sed: can't read s/b/c/: No such file or directory",
            "sed 's/a/b/' 's/b/c/' data/a",
            1,
            "sed takes one script",
            "sed -e 's/a/b/' -e 's/b/c/' data/a",
        ),
        (
            "a.sh: line 2: OUT: unbound variable",
            "set -u\ncp a $OUT",
            None,
            "Assign it before this line",
            None,
        ),
        (
            "jq: error: pen/0 is not defined at <top-level>, line 1:",
            "jq '.a == 'pen'' data/a | sort",
            1,
            "double quotes",
            "jq '.a == \"pen\"' data/a | sort",
        ),
        (
            "cut: 2: No such file or directory",
            "cut -d, -f 1 2 data/a.csv",
            1,
            "name of a file",
            "cut -d, -f 1,2 data/a.csv",
        ),
        (
            "parse error: Invalid numeric literal at line 1, column 3",
            "jq . data/a",
            1,
            "isn't valid JSON",
            None,
        ),
        (
            'jq: error (at <stdin>:0): string ("a") and number (3) cannot be added',
            "jq '.a + .b' data/a",
            1,
            "A string and a number can't be added",
            None,
        ),
        ("UNIQUE constraint failed: users.email", "", None, "INSERT OR IGNORE", None),
        (
            "cut: tmp/row.csv: No such file or directory",
            "sort data/a > tmp/rows.csv\ncut -f3 tmp/row.csv",
            2,
            "Did you mean `tmp/rows.csv`?",
            "cut -f3 tmp/rows.csv",
        ),
        (
            "cut: rows.csv: No such file or directory",
            "sort data/a > tmp/rows.csv\ncut -f3 rows.csv",
            2,
            "Did you mean `tmp/rows.csv`?",
            "cut -f3 tmp/rows.csv",
        ),
        (
            "cut: tmp/b.csv: No such file or directory",
            "sort data/a > tmp/a.csv\ncut -f3 tmp/b.csv",
            2,
            "",
            None,
        ),
        (
            "scripts/01_a.sh: line 1: [: syntax error: `-q' unexpected",
            "if [ grep -q x data/a ]; then",
            1,
            "runs no command",
            "if grep -q x data/a; then",
        ),
        ("scripts/01_a.sh: line 2: cuont: unbound variable", "count=1\necho $cuont", 2, "`$count`", None),
        ("NOT NULL constraint failed: t.b", "", None, "WHERE b IS NOT NULL", None),
        ("too many levels of trigger recursion", "", None, "`WHEN` condition", None),
        ("scripts/01_a.sh: line 3: OUT: unbound variable", "\n\necho $OUT", 3, "OUT=", None),
        ("scripts/01_a.sh: line 1: [: -gt: unary operator expected", "[ $n -gt 0 ]", 1, ":-0}", None),
    ],
)
def test_message_has_a_remedy_and_a_place(
    said: str, content: str, line: int | None, hint: str, corrected: str | None
) -> None:
    told = explain_message(said, content)
    assert told.line == line
    assert hint.replace("10#m", "10#$m") in (told.hint or "")
    if corrected is not None:
        assert told.edit is not None
        assert told.edit.replacement == corrected


def test_unknown_message_only_has_a_place() -> None:
    told = explain_message("cat: data/x: No such file or directory", "ls\ncat data/x\n")
    assert (told.hint, told.line, told.edit) == (None, 2, None)


def test_program_on_several_lines_has_no_place_unless_a_value_tells_them_apart() -> None:
    assert explain_message("sort: it failed", "sort a\nsort b\n").line is None
    assert explain_message("sort: cannot read: 'data/b': gone", "sort data/a\nsort data/b\n").line == 2
