"""Facts about data, and the findings if the next run's data differ."""

from __future__ import annotations

import time

import pytest

from assayd_pipeline.facts import (
    MAX_PARSED_ROWS,
    DataFacts,
    Expected,
    Facts,
    RowRange,
    iter_input_findings,
    iter_result_findings,
    read_file_facts,
)

SALES = "data/sales.csv"


def of(text: str, path: str = SALES) -> Facts:
    return read_file_facts(path, text.encode())


@pytest.mark.parametrize(
    ("path", "text", "facts"),
    [
        (SALES, "", Facts(rows=0)),
        (SALES, "id,name\n", Facts(rows=0, columns=("id", "name"), types=("", ""))),
        (SALES, "id,name\n1,a\n\n2,b", Facts(rows=2, columns=("id", "name"), types=("number", "text"))),
        (SALES, 'id,name\n1,"a\nb"\n', Facts(rows=1, columns=("id", "name"), types=("number", "text"))),
        (SALES, "id;name\n1;a\n", Facts(rows=1, columns=("id", "name"), types=("number", "text"))),
        (SALES, "id\n1\nx\n2\n", Facts(rows=3, columns=("id",), types=("text",))),
        ("data/a.tsv", "id\tn\n1\t\n", Facts(rows=1, columns=("id", "n"), types=("number", ""))),
        ("data/a.jsonl", "{}\n{}\n", Facts(rows=2)),
        ("data/a.log", "one\ntwo", Facts(rows=2)),
        ("data/a.json", "[1]", Facts()),
        ("data/a.json", " \n", Facts(rows=0)),
    ],
)
def test_file_has_its_columns_types_and_rows(path: str, text: str, facts: Facts) -> None:
    assert of(text, path) == facts


def test_file_with_very_many_lines_is_counted_by_lines() -> None:
    found = of("id\n" + "1\n" * (MAX_PARSED_ROWS + 5))

    assert found == Facts(rows=MAX_PARSED_ROWS + 5, columns=("id",), types=("number",))


@pytest.mark.parametrize("text", ["\n" * 2**24, "a," * 2**23, '"' * 2**24, "1" * 2**24])
def test_hostile_file_takes_little_time(text: str) -> None:
    began = time.process_time()
    of(text)
    assert time.process_time() - began < 2


def rules(before: str, after: str | None, **more: object) -> list[str]:
    expected = Expected(inputs={SALES: of(before)}, **more)  # type: ignore[arg-type]
    found = {} if after is None else {SALES: of(after)}
    return [f"{each.severity} {each.rule}" for each in iter_input_findings(expected, found)]


TEN = "id,amount\n" + "1,2\n" * 10


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (TEN, []),
        ("id,amount\n" + "x,y\n" * 10, []),
        (None, ["error data.missing"]),
        ("id,total\n" + "1,2\n" * 10, ["error data.columns"]),
        ("amount,id\n" + "1,2\n" * 10, ["error data.columns"]),
        ("id,amount\n", ["error data.empty"]),
        ("id,amount\n" + "1,2\n" * 5, []),
        ("id,amount\n" + "1,2\n" * 4, ["warning data.rows"]),
        ("id,amount\n" + "1,2\n" * 20, []),
        ("id,amount\n" + "1,2\n" * 21, ["warning data.rows"]),
    ],
)
def test_submitted_file_that_differs_is_found(after: str | None, found: list[str]) -> None:
    assert rules(TEN, after) == found


def test_strict_run_makes_rows_out_of_range_an_error() -> None:
    assert rules(TEN, "id,amount\n1,2\n", strict=True) == ["error data.rows"]
    assert rules(TEN, "id,amount\n1,2\n", strict=True, range=RowRange(least=0, most=9)) == []


def test_message_says_what_differs() -> None:
    expected = Expected(inputs={SALES: of("id,amount\n1,2\n")})
    [finding] = iter_input_findings(expected, {SALES: of("id,total\n1,2\n")})
    assert finding.message == "'data/sales.csv': columns missing: amount; new: total."


def test_results_are_compared_by_files_and_tables() -> None:
    table = Facts(rows=4, columns=("id",), types=("INTEGER",))
    then = {"outputs": {"data/a.csv": of(TEN), "data/b.csv": of(TEN)}, "tables": {"t": table, "u": table}}
    text = {"t": table.model_copy(update={"types": ("TEXT",)})}
    now = DataFacts(outputs={"data/a.csv": of(TEN.replace("2", "x"))}, tables=text)

    found = [(each.rule, each.message) for each in iter_result_findings(Expected.model_validate(then), now)]

    assert found == [
        ("data.types", "'data/a.csv': column 'amount' has the type text; it had number."),
        ("data.missing", "'data/b.csv' is missing; the approved run left it."),
        ("data.types", "Table 't': column 'id' has the type TEXT; it had INTEGER."),
        ("data.missing", "Table 'u' is missing; the approved run left it."),
    ]


def test_output_that_equals_the_submitted_file_is_not_missing() -> None:
    expected = Expected(outputs={SALES: of(TEN)})
    assert list(iter_result_findings(expected, DataFacts(inputs={SALES: of(TEN)}))) == []


def test_run_without_expectations_has_no_findings() -> None:
    assert list(iter_result_findings(None, DataFacts())) == []


def test_hostile_expectations_take_little_time() -> None:
    """Senders choose the expectations: here, every file expects the maximum of columns, and none exists."""
    gone, now = ({f"{at}{n}": f"{n}" * 9 for n in range(500)} for at in "ab")
    then = Facts(columns=tuple(gone), types=tuple(gone.values()))
    found = Facts(columns=tuple(now), types=tuple(now.values()))
    names = [f"data/{n}.csv" for n in range(200)]
    expected = Expected(inputs=dict.fromkeys(names, then), outputs=dict.fromkeys(names, then))
    data = DataFacts(inputs=dict.fromkeys(names, found), outputs=dict.fromkeys(names, found))

    began = time.process_time()
    counts = [
        len(list(iter_input_findings(expected, data.inputs))),
        len(list(iter_result_findings(expected, data))),
    ]

    assert time.process_time() - began < 0.2
    assert counts == [100, 100]
