from __future__ import annotations

from collections.abc import Mapping

import pytest

from assayd.model.finding import Finding, Severity
from assayd.model.run import Cause, OutputFile, RunEndReason, RunOutcome, RunResult
from assayd_pipeline.errors import ErrorSource
from assayd_pipeline.judging import StepText
from assayd_pipeline.sql_record import IdleStatement
from assayd_pipeline.worth import iter_idle_findings, judge_results, read_steps

SALES = {"data/sales.csv": b"id,region\n1,north\n2,south\n"}


def judged(
    *steps: str, outputs: Mapping[str, bytes], files: Mapping[str, bytes] = SALES, printed: bool = False
) -> list[Finding]:
    """Return the findings for bash steps that left these outputs."""
    texts = [
        StepText(number=number, name=f"step{number}", program=ErrorSource.BASH, content=content)
        for number, content in enumerate(steps, start=1)
    ]
    result = RunResult(
        units=(),
        end=RunEndReason.FINISHED,
        outcome=RunOutcome(cause=Cause.COMPLETED),
        outputs=tuple(OutputFile(name=name, content=content) for name, content in outputs.items()),
    )
    return list(judge_results(texts, read_steps(texts, files), [printed] * len(texts), result))


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is empty"), (b"[]", "is empty"), (b"id,region\n", "has only a header line")],
)
def test_output_without_rows_of_an_input_with_rows_is_found(content: bytes, said: str) -> None:
    (found,) = judged(
        "set -e\ngrep nowhere data/sales.csv > data/found.csv || true", outputs={"data/found.csv": content}
    )

    assert (found.rule, found.severity, found.line) == ("quality.empty_output", Severity.WARNING, 2)
    assert found.message == f"Step 1 (step1): data/found.csv {said}, but data/sales.csv has rows."


@pytest.mark.parametrize(
    ("step", "output", "content", "files"),
    [
        ("cut -d, -f1 data/sales.csv > data/ids.csv", "data/ids.csv", b"id\n1\n", SALES),
        ("grep x data/sales.csv > data/rejected.csv || true", "data/rejected.csv", b"", SALES),
        ("touch data/a data/out.csv; grep x data/sales.csv >> data/out.csv", "data/out.csv", b"", SALES),
        (": > 'data/out.csv'\ngrep x data/sales.csv >> data/out.csv", "data/out.csv", b"", SALES),
        ("cat data/sales.csv > data/out.csv", "data/out.csv", b"", {"data/sales.csv": b"id,region\n"}),
    ],
    ids=["rows", "a list of faults", "touched", "cleared", "input without rows"],
)
def test_output_that_may_be_empty_is_left_alone(
    step: str, output: str, content: bytes, files: Mapping[str, bytes]
) -> None:
    assert judged(step, outputs={output: content}, files=files) == []


def test_step_whose_only_result_is_not_read_is_found() -> None:
    (found,) = judged("sort data/sales.csv > tmp/sorted.csv", "wc -l data/sales.csv", outputs={})

    assert (found.rule, found.line) == ("quality.unused_result", 1)
    assert "No later step reads tmp/sorted.csv" in found.message
    (found,) = judged("sort data/sales.csv > /tmp/sorted.csv", "true", outputs={})
    assert "No later step reads tmp/sorted.csv" in found.message


@pytest.mark.parametrize(
    "steps",
    [
        ("sort data/sales.csv > tmp/sorted.csv", "head tmp/sorted.csv"),
        ("sort data/sales.csv > tmp/sorted.csv", "cat tmp/*.csv"),
        ("sort data/sales.csv > tmp/sorted.csv; cp tmp/sorted.csv data/", "true"),
        ("sort data/sales.csv > data/sorted.csv", "true"),
        ("sort data/sales.csv > /tmp/sorted.csv", "head /tmp/sorted.csv"),
        ("sort data/sales.csv > /dev/null", "true"),
    ],
    ids=["read by name", "read by pattern", "copied", "kept", "read by its whole path", "thrown away"],
)
def test_step_whose_result_is_used_or_kept_is_left_alone(steps: tuple[str, ...]) -> None:
    assert judged(*steps, outputs={}) == []


def test_step_that_prints_its_result_is_left_alone() -> None:
    assert judged("sort data/sales.csv | tee tmp/sorted.csv", "true", outputs={}, printed=True) == []


@pytest.mark.parametrize(
    ("verb", "hint"), [("INSERT", "the SELECT matches none"), ("UPDATE", "the WHERE condition")]
)
def test_statement_that_changes_no_row_is_found_at_its_line(verb: str, hint: str) -> None:
    step = StepText(
        number=2, name="fix", program=ErrorSource.SQL, content="SELECT 1;\nUPDATE orders SET a = 1;"
    )

    (found,) = iter_idle_findings(step, [IdleStatement(verb=verb, table="orders", line=2)])

    assert (found.rule, found.line) == ("quality.no_rows", 2)
    assert found.message == f"Step 2 (fix): {verb} 'orders' changes no row."
    assert hint in (found.suggestion or "")


def test_many_statements_that_change_no_row_are_not_all_listed() -> None:
    step = StepText(number=1, name="fix", program=ErrorSource.SQL, content="x")

    assert (
        len(list(iter_idle_findings(step, [IdleStatement(verb="DELETE", table="a", line=None)] * 50))) == 10
    )
