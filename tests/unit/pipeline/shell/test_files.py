"""Files that a script reads and that won't exist."""

from __future__ import annotations

import pytest

from assayd.model.finding import Finding
from assayd.model.policy import ExecutionPolicy
from assayd_pipeline.shell import WorkFiles, check_script

SUBMITTED = frozenset({"data/sales.csv", "data/2024/q1.csv"})


def missing(policy: ExecutionPolicy, text: str, *written: str) -> list[Finding]:
    """Return the findings about files that don't exist."""
    files = WorkFiles(submitted=SUBMITTED, written=written)
    found = check_script(text, policy.commands, files=files).findings
    return [one for one in found if one.rule == "path.missing"]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("cp data/nothere.csv out.csv; echo done", 1, "Read a submitted file"),
        ("echo a\ncat data/sale.csv | wc -l", 2, "`data/sales.csv`"),
        ("n=$(grep -c x data/sale.csv)", 1, "`data/sales.csv`"),
        ("jq . data/sale.csv", 1, "`data/sales.csv`"),
        ("sed -i s/a/b/ data/sale.csv", 1, "`data/sales.csv`"),
        ("wc -l < sales.csv", 1, "`data/sales.csv`"),
        ("f=data/sale.csv\nsort $f", 2, "`data/sales.csv`"),
        ("grep x *.csv", 1, "`data/*.csv`"),
        ("cd data\nwc -l data/sales.csv", 2, "`sales.csv`"),
        ("cat data\\sales.csv", 1, "`data/sales.csv`"),
        ("echo x > tmp/reports/a.txt", 1, "`mkdir -p tmp/reports`"),
    ],
)
def test_file_that_will_not_exist_is_found_before_the_run(
    policy: ExecutionPolicy, text: str, line: int, said: str
) -> None:
    [finding] = missing(policy, text)
    assert (finding.line, finding.is_error) == (line, True)
    assert said in (finding.suggestion or "")


@pytest.mark.parametrize(
    "text",
    [
        "cat data/sales.csv data/2024/q1.csv; ls data/2024",
        "cat data/x.csv || echo none",
        "if grep -q x data/x.csv; then echo y; fi",
        "if [ -f data/x.csv ]; then cat data/x.csv; fi",
        "[[ -s data/x.csv ]] && cat data/x.csv",
        "cat data/x.csv 2>/dev/null",
        "sort data/sales.csv > data/x.csv; cat data/x.csv",
        'for n in a b; do echo "$n" > "data/$n.csv"; done; cat data/a.csv',
        "awk -F, '{ print > $1 }' data/sales.csv; cat data/x.csv",
        "sed -n 'w data/x.csv' data/sales.csv; cat data/x.csv",
        "cd data && cat sales.csv",
        "(cd data; cat sales.csv)",
        'cat "$1"',
        "cat data/*.txt",
        "mkdir -p tmp/reports; echo x > tmp/reports/a.txt",
        "echo x > data/2024/b.csv",
    ],
)
def test_file_that_may_exist_is_left_to_the_run(policy: ExecutionPolicy, text: str) -> None:
    assert missing(policy, text) == []


def test_file_of_an_earlier_step_exists(policy: ExecutionPolicy) -> None:
    assert missing(policy, "cat data/clean.csv", "data/clean.csv") == []
    assert missing(policy, "cat data/clean.csv", "") == []


def test_edit_names_the_file_that_was_meant(policy: ExecutionPolicy) -> None:
    [finding] = missing(policy, 'wc -l "data/sale.csv"')
    assert finding.edit is not None
    assert finding.edit.replacement == 'wc -l "data/sales.csv"'
