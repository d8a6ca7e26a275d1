"""Collects facts about a run's data (columns, types, rows), and compares them with an earlier run's facts.

data/sales.csv isn't submitted, and the approved run had it    data.missing
data/sales.csv has no column `amount` any more                 data.columns
the column `total` of data/report.csv isn't a number now       data.types
data/report.csv has no rows                                    data.empty
table sales has 40 rows, 0.3 times the 120 of the last run     data.rows

Other modules decide which runs are compared; see docs/scheduled-pipelines.md.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from io import StringIO
from itertools import islice
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from assayd.model.finding import Finding, Layer, Rule, Severity
from assayd.model.text_limits import shorten_text

DATA_RULES = (
    Rule(
        id="data.missing",
        title="Data of the approved run is missing",
        help="Bad: a run without data/sales.csv, which the approved run had.",
    ),
    Rule(
        id="data.columns",
        title="Columns differ from the approved run",
        help="Bad: data/sales.csv has no column `amount` any more.",
    ),
    Rule(
        id="data.types",
        title="Types differ from the approved run",
        help="Bad: the column `total` of data/report.csv has texts; it had numbers.",
    ),
    Rule(
        id="data.empty",
        title="Data has no rows",
        help="Bad: data/report.csv has a header line only.",
    ),
    Rule(
        id="data.rows",
        title="The number of rows is out of range",
        severity=Severity.WARNING,
        help="Bad: 40 rows, if the last run had 120 and the range is 0.5 to 2 times.",
    ),
)
LINES = (".csv", ".tsv", ".txt", ".log", ".jsonl", ".ndjson")
"""Suffixes of files whose lines are rows."""
MAX_NAMES, MAX_COLUMNS, MOST_NAME = 200, 500, 200
MAX_PARSED_ROWS, SAMPLED_BYTES = 5_000, 2**18
"""The limits above which a file's rows are counted by lines, and its columns are read from the beginning."""
_SAMPLED_ROWS, _SAMPLED_CELLS = 1000, 10_000
"""Maximum number of rows and cells of a file to read for the types of its columns."""
_MAX_DATA_FINDINGS = 100
NUMBER, TEXT, NOTHING = "number", "text", ""
"""Types of a column of a file; `NOTHING` if its cells are empty."""

Name = Annotated[str, Field(max_length=MOST_NAME)]
Names = Annotated[tuple[Name, ...], Field(max_length=MAX_COLUMNS)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Facts(_Model):
    """A file or a table. `rows` is None if it has no countable rows. `types` are those of `columns`."""

    rows: Annotated[int, Field(ge=0, le=2**53)] | None = None
    columns: Names = ()
    types: Names = ()


Group = Annotated[dict[Name, Facts], Field(max_length=MAX_NAMES)]


class DataFacts(_Model):
    """The facts about the data of a run: submitted files, created or changed files, and tables."""

    inputs: Group = {}
    outputs: Group = {}
    tables: Group = {}


class RowRange(_Model):
    """The allowed number of rows, as a multiple of the expected number."""

    least: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 0.5
    most: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 2.0


class Expected(DataFacts):
    """The facts of an earlier run. If `strict` is set, a number of rows out of range is an error."""

    range: RowRange = RowRange()
    strict: bool = False


def read_file_facts(path: str, content: bytes) -> Facts:
    """Return the facts of a file in linear time.

    A CSV or TSV file has columns, whose types are inferred from the first rows; other files of lines have
    only a number of rows. `rows` of any other file is 0 if the file is empty, otherwise None.
    """
    if not path.endswith(LINES):
        return Facts(rows=None if content.strip() else 0)
    if not path.endswith((".csv", ".tsv")):
        return Facts(rows=content.count(b"\n") + (content[-1:] not in b"\n"))
    lines = content.count(b"\n")
    if is_long := lines > MAX_PARSED_ROWS:
        content = content[:SAMPLED_BYTES]
    text = content.decode("utf-8-sig", "replace")
    head = text[: text.find("\n") + 1] or text
    delimiter = "\t" if path.endswith(".tsv") else ";" if ";" in head and "," not in head else ","
    rows = csv.reader(StringIO(text, newline=""), delimiter=delimiter)
    try:
        columns = [name.strip()[:MOST_NAME] for name in next(rows, [])[:MAX_COLUMNS]]
        types, count, cells = [NOTHING] * len(columns), 0, 0
        for row in islice(rows, _SAMPLED_ROWS if is_long else None):
            count += bool(row)
            if count <= _SAMPLED_ROWS and cells <= _SAMPLED_CELLS:
                cells += len(row)
                types = [_widen_type(known, cell) for known, cell in zip(types, row, strict=False)] + types[
                    len(row) :
                ]
    except csv.Error:  # a field is larger than 128 KiB: count the lines instead
        return Facts(rows=max(0, lines - 1))
    return Facts(rows=lines - 1 if is_long else count, columns=tuple(columns), types=tuple(types))


def _widen_type(known: str, cell: str) -> str:
    """Return a column's type after taking the value of a cell into account."""
    if known == TEXT or not cell.strip():
        return known
    try:
        float(cell[:100])
    except ValueError:
        return TEXT
    return NUMBER


def iter_input_findings(expected: Expected, found: Mapping[str, Facts]) -> Iterator[Finding]:
    """Yield the differences between submitted files and those of an earlier run, before anything is run."""
    return islice(_compare_inputs(expected, found), _MAX_DATA_FINDINGS)


def _compare_inputs(expected: Expected, found: Mapping[str, Facts]) -> Iterator[Finding]:
    for path, then in expected.inputs.items():
        if path not in found:
            yield _build_data_finding(
                "missing", f"{path!a} isn't submitted; the approved run had it.", "Submit it.", static=True
            )
        else:
            yield from _compare_facts(f"{path!a}", then, found[path], expected, static=True)


def iter_result_findings(expected: Expected | None, now: DataFacts) -> Iterator[Finding]:
    """Yield the differences between the results of a run and those of an earlier run, if there is one."""
    if expected is not None:
        yield from islice(_compare_results(expected, now), _MAX_DATA_FINDINGS)


def _compare_results(expected: Expected, now: DataFacts) -> Iterator[Finding]:
    files = {**now.inputs, **now.outputs}  # an output that equals the submitted file isn't among the outputs
    groups = (("", expected.outputs, files), ("table ", expected.tables, now.tables))
    for prefix, before, after in groups:
        for name, then in before.items():
            if name in after:
                yield from _compare_facts(f"{prefix}{name!a}", then, after[name], expected)
            else:
                message = f"{prefix}{name!a} is missing; the approved run left it."
                yield _build_data_finding("missing", message, "Find the step that should create it.")


def _compare_facts(
    name: str, then: Facts, now: Facts, expected: Expected, *, static: bool = False
) -> Iterator[Finding]:
    hint = "Compare the data with that of the approved run, or approve a run on the new data."
    if then.columns != now.columns:
        yield _build_data_finding(
            "columns", f"{name}: {_describe_column_difference(then, now)}.", hint, static=static
        )
    elif not static:
        for column, before, after in zip(now.columns, then.types, now.types, strict=False):
            if before != after and NOTHING not in {before, after}:
                message = f"{name}: column {column!a} has the type {after}; it had {before}."
                yield _build_data_finding("types", message, hint)
    if now.rows == 0 and then.rows != 0:
        yield _build_data_finding(
            "empty", f"{name} has no rows.", "Check where the data comes from.", static=static
        )
    elif now.rows is not None and then.rows:
        ratio, limits = now.rows / then.rows, expected.range
        if not limits.least <= ratio <= limits.most:
            message = (
                f"{name} has {now.rows} rows, {ratio:.2g} times the {then.rows} of the last run that passed; "
                f"{limits.least:g} to {limits.most:g} times are expected."
            )
            severity = Severity.ERROR if expected.strict else Severity.WARNING
            hint = "Check the data; if it is right, allow a wider range."
            yield _build_data_finding("rows", message, hint, severity=severity, static=static)


def _describe_column_difference(then: Facts, now: Facts) -> str:
    before, after = frozenset(then.columns), frozenset(now.columns)
    gone = [name for name in then.columns if name not in after]
    new = [name for name in now.columns if name not in before]
    parts = [f"{what}: {', '.join(names[:10])}" for what, names in (("missing", gone), ("new", new)) if names]
    return f"columns {'; '.join(parts)}" if parts else "the columns have another order"


def _build_data_finding(
    rule: str, message: str, hint: str, *, severity: Severity = Severity.ERROR, static: bool = False
) -> Finding:
    return Finding(
        rule=f"data.{rule}",
        category="data",
        message=shorten_text(message[:1].upper() + message[1:]),
        severity=severity,
        layer=Layer.STATIC if static else Layer.RUNTIME,
        suggestion=hint,
    )
