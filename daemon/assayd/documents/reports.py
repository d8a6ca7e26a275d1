"""Documents of reports: results of the stages and of the run, rejected imports, and fix hints.

A result is shown with text previews of the arrays and tables in it: their size, types and first rows.

    dataframe, 300 rows × 2 columns
       region      n
       object  int64
    0   north      1
    1   south      2
    … 298 more rows

Guest code controls the result. Therefore, a value that is tagged as a table but has another shape gets no
preview, and only a limited part of a large value is read.

`junit` converts a report to JUnit XML for CI servers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any, Literal
from xml.etree import ElementTree as ET

from pydantic import Field

from assayd.documents.base import BaseDocument, Timestamp, canonical, serialize_compact, to_milliseconds
from assayd.model.finding import Finding, FixHint, Layer, Severity, list_fix_hints
from assayd.model.policy import ClampedValue, Enforcement, NetworkPolicy
from assayd.model.report import Case, CaseStatus, Report, StageReport, StageStatus, StaticResult
from assayd.model.run import Cause, Limits, PolicyEvent
from assayd.model.submission import JsonValue, Submission
from assayd.model.text_limits import shorten_text

SCHEMA_VERSION = 1
MAX_RESULT_TEXT_BYTES = 4096
"""Bytes above which a result's text form is omitted, because the result itself is present."""


class FindingDocument(BaseDocument):
    """One fault at one location."""

    rule: str = Field(description="Id of the rule, as the kind lists it.")
    category: str = Field(description="Group of rules.")
    severity: Severity = Field(description="Errors fail the submission.")
    message: str = Field(description="The fault.")
    file: str | None = Field(description="Submitted file; null if there is only one text.")
    line: int | None = Field(description="First line, from 1, in the checked text.")
    column: int | None = Field(description="Column, from 1.")
    end_line: int | None = Field(description="Last line.")
    snippet: str | None = Field(description="The source line or lines.")
    suggestion: str | None = Field(description="Suggested fix.")
    layer: Layer = Field(description="Found by reading or by running.")
    profile_key: str | None = Field(
        None, description="The profile's key that states the rule; null: it holds under every profile."
    )
    subject: str | None = Field(
        None, description="The name that the profile refuses: a module, an attribute, a command, a host."
    )


class StageDocument(BaseDocument):
    """One stage of a validation."""

    name: str = Field(description="Name of the stage.")
    status: StageStatus = Field(description="How it ended.")
    duration_ms: float = Field(description="Duration.")
    findings: list[FindingDocument] = Field(description="Findings of the stage.")


class CaseDocument(BaseDocument):
    """One executed item, e.g. a sample path, a step, a test or a node."""

    name: str = Field(description="Name of the unit.")
    status: CaseStatus = Field(description="How it ended.")
    cause: Cause | None = Field(description="Why it ended; null when it never started.")
    result: Any = Field(description="Returned value, as JSON.")
    result_text: str | None = Field(
        default=None,
        description="The value as JSON text, with fields in the order of the code; null if "
        "that order is sorted, or if the text exceeds 4 KiB.",
    )
    preview: str | None = Field(
        default=None,
        description="Preview of tables and arrays in the value: size, types and first rows, "
        "as text; null if the value has none.",
    )
    error_type: str | None = Field(description="Type of the exception.")
    message: str | None = Field(description="Message of the exception.")
    traceback: str | None = Field(description="Frames of the submitted code only.")
    file: str | None = Field(description="Submitted file; null if there is only one text.")
    line: int | None = Field(description="Line of the submitted code.")
    stdout: str = Field(description="Standard output, head and tail.")
    stderr: str = Field(description="Standard error, head and tail.")
    duration_ms: float = Field(description="Duration.")
    exit_code: int | None = Field(description="Exit code of its process.")
    expected: Any = Field(None, description="Expected result of a case; otherwise null.")


class RuntimeResultsDocument(BaseDocument):
    """All cases of a run, with their counts by result."""

    total: int = Field(description="Number of cases.")
    passed: int = Field(description="Number of passed cases.")
    failed: int = Field(description="Number of failed cases.")
    errored: int = Field(description="Number of cases that didn't finish.")
    skipped: int = Field(description="Number of cases that never started.")
    cases: list[CaseDocument] = Field(description="The cases, in order.")


class ReportDocument(BaseDocument):
    """The merged static and run-time results of one attempt."""

    schema_version: Literal[1] = Field(description="Version of this form.")
    attempt_id: str = Field(description="The attempt that this reports on.")
    kind: str = Field(description="Kind of the submission.")
    status: Literal["VALIDATED", "FAILED", "ERROR", "CANCELLED"] = Field(description="The verdict.")
    stage_reached: str = Field(description="The first failed stage; `complete` if validated.")
    stages: list[StageDocument] = Field(description="All stages, in order.")
    static_results: list[StaticResult] = Field(description="The static checks that ran.")
    runtime_results: RuntimeResultsDocument | None = Field(description="The cases; null if nothing ran.")
    findings: list[FindingDocument] = Field(description="All findings, in stage order.")
    import_violations: list[ImportViolationDocument] = Field(
        description="Forbidden imports, in the source or at run time."
    )
    fix_hints: list[FixHint] = Field(description="Suggested changes.")
    retry_context: str | None = Field(description="Text for a model's next try.")
    confidence: float | None = Field(description="Confidence from 0 to 1, for kinds that rate.")
    feedback: Any = Field(
        description="Advice of the kind for the next try, or facts about a pipeline's data."
    )
    score: float | None = Field(
        None, description="Share of hidden tests that passed, 0 to 1; null without a score."
    )
    integrity: str | None = Field(
        None, description="`separated`, or the reason why the score relies on the code; null without a score."
    )
    effective_limits: dict[str, Any] = Field(description="The limits that were enforced.")
    clamped: list[ClampedValue] = Field(description="Values of the profile that were clamped.")
    input_digest: str = Field(description="SHA-256 of kind and payload.")
    policy_digest: str = Field(description="SHA-256 of the effective policy.")
    enforcement: Enforcement = Field(
        Enforcement.ENFORCE, description="`report`: rules of the profile are warnings."
    )
    image_digest: str | None = Field(description="Digest of the image; null if nothing ran.")
    validated_at: Timestamp | None = Field(description="When the verdict was reached.")


def build_report_document(report: Report) -> ReportDocument:
    """Return the document of a report."""
    return ReportDocument.from_value(
        report,
        schema_version=SCHEMA_VERSION,
        status=report.verdict.upper(),
        stages=[build_stage_document(stage) for stage in report.stages],
        static_results=list(report.static_results),
        runtime_results=None if report.cases is None else _build_runtime_results(report.cases),
        findings=_build_finding_documents(report.findings),
        import_violations=list_violations(report.findings, report.refused_imports),
        fix_hints=list(report.fix_hints),
        effective_limits=dict(report.effective_limits),
        clamped=list(report.clamped),
    )


def build_limits_document(limits: Limits, network: NetworkPolicy) -> dict[str, JsonValue]:
    """Return the limits that applied to an attempt."""
    return {
        "timeout_s": limits.timeout_s,
        "unit_timeout_s": limits.unit_timeout_s,
        "memory_mb": limits.memory_bytes // 2**20,
        "max_processes": limits.max_processes,
        "cpus": limits.cpus,
        "work_bytes": limits.work_bytes,
        "work_files": limits.work_files,
        "open_files": limits.open_files,
        "output_kept_bytes": limits.output_kept_bytes,
        "output_read_bytes": limits.output_read_bytes,
        "unit_result_bytes": limits.unit_result_bytes,
        "network_mode": network.mode,
    }


def build_stage_document(stage: StageReport) -> StageDocument:
    """Return the document of a stage."""
    return StageDocument.from_value(
        stage,
        duration_ms=to_milliseconds(stage.duration_s),
        findings=_build_finding_documents(stage.findings),
    )


def _build_finding_documents(findings: Sequence[Finding]) -> list[FindingDocument]:
    return [FindingDocument.from_value(finding) for finding in findings]


def _build_runtime_results(cases: Sequence[Case]) -> RuntimeResultsDocument:
    count = Counter(case.status for case in cases)
    return RuntimeResultsDocument.model_construct(
        total=len(cases),
        passed=count[CaseStatus.PASSED],
        failed=count[CaseStatus.FAILED],
        errored=count[CaseStatus.ERROR],
        skipped=count[CaseStatus.SKIPPED],
        cases=[_build_case_document(case) for case in cases],
    )


def _build_case_document(case: Case) -> CaseDocument:
    return CaseDocument.from_value(
        case,
        duration_ms=to_milliseconds(case.duration_s),
        result_text=_serialize_if_reordered(case.result),
        preview=render_preview(case.result),
    )


def _serialize_if_reordered(result: JsonValue) -> str | None:
    """Return a result as JSON text if the canonical form would reorder its fields."""
    if not isinstance(result, dict | list):
        return None
    text = serialize_compact(result)
    if len(text) > MAX_RESULT_TEXT_BYTES or text == canonical(result):
        return None
    return text.decode()


MAX_LISTED_IMPORTS = 500
"""Maximum number of listed imports and of listed violations."""
RULE = "import.not_allowed"
_CALL_RULES = frozenset({"builtin.not_allowed", "forbidden.name"})
"""Rules for rejected names; the second one also covers modules."""
_STATIC_RULE_IDS = frozenset({RULE, "import.relative", "import.star"})


class ImportViolationDocument(BaseDocument):
    """One import that the policy doesn't allow."""

    module: str | None = Field(description="Dotted name; null when it is computed.")
    location: Layer = Field(description="Found by reading or by running.")
    file: str | None = Field(description="Submitted file of the import.")
    line: int | None = Field(description="Line of the import.")
    rule: str = Field(description="Id of the rule.")


def list_violations(
    findings: Iterable[Finding], events: Iterable[PolicyEvent]
) -> list[ImportViolationDocument]:
    """Return up to `MAX_LISTED_IMPORTS` import violations, static violations first."""
    return [*_iter_static_violations(findings), *iter_runtime_violations(events)][:MAX_LISTED_IMPORTS]


_IMPORT_PATTERN = re.compile(r"""__import__\(\s*["']([\w.]{1,200})["']""")
"""A call of `__import__` with a literal module name."""


def _iter_static_violations(findings: Iterable[Finding]) -> Iterator[ImportViolationDocument]:
    """Yield a violation for each static finding about an import."""
    for finding in findings:
        if finding.layer is not Layer.STATIC or not finding.is_error:
            continue
        if finding.rule in _STATIC_RULE_IDS:
            yield ImportViolationDocument.from_value(
                finding, module=_find_quoted_module(finding), location=Layer.STATIC
            )
        elif finding.rule in _CALL_RULES and "'__import__'" in finding.message:
            named = _IMPORT_PATTERN.search(finding.snippet or "")
            module = named[1] if named is not None else None
            yield ImportViolationDocument.from_value(finding, module=module, location=Layer.STATIC)


def iter_runtime_violations(events: Iterable[PolicyEvent]) -> Iterator[ImportViolationDocument]:
    """Yield a violation for each import that the policy refused at run time."""
    for event in events:
        if event.kind == "import" and not event.allowed:
            yield ImportViolationDocument.from_value(
                event, module=event.detail, location=Layer.RUNTIME, rule=RULE
            )


def _find_quoted_module(finding: Finding) -> str | None:
    """Return the module that a finding's message quotes, or None if only the run reveals the name."""
    _, quote, rest = finding.message.partition("'")
    return rest.partition("'")[0] if quote else None


MAX_TABLES = 3
MAX_ROWS = 5
MAX_COLUMNS = 8
MAX_CELL_CHARS = 20
_MAX_NAME_CHARS = 60
_MAX_MEMBERS_SEARCHED = 20
"""The maximum number of an object's or array's members that are searched for tables."""
_MAX_TABLE_DEPTH = 3
_MAX_LABEL_LEVELS = 4
_MAX_READ_CHARS = 200
"""The maximum number of a string's characters that are read for a cell."""

Rows = Sequence[Sequence[str]]


def render_preview(result: JsonValue) -> str | None:
    """Return a preview of the first tables and arrays in a result, or None if it has none."""
    return "\n\n".join(islice(_render_previews(result, "", _MAX_TABLE_DEPTH), MAX_TABLES)) or None


def _render_previews(value: JsonValue, name: str, depth: int) -> Iterator[str]:
    if isinstance(value, dict) and "$py" in value:
        if (lines := _render_tagged(value)) is not None:
            yield "\n".join([f"{name.lstrip('.')}: {lines[0]}" if name else lines[0], *lines[1:]])
            return
        value = value.get("value") if value["$py"] == "tuple" else None
    for key, one in _iter_members(value) if depth else ():
        yield from _render_previews(one, shorten_text(f"{name}{key}", _MAX_NAME_CHARS), depth - 1)


def _iter_members(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, dict):
        yield from (
            (f".{_render_cell(key)}", one) for key, one in islice(value.items(), _MAX_MEMBERS_SEARCHED)
        )
    elif isinstance(value, list):
        yield from ((f"[{place}]", one) for place, one in enumerate(islice(value, _MAX_MEMBERS_SEARCHED)))


def _render_tagged(tagged: dict[str, JsonValue]) -> list[str] | None:
    held, kind = tagged.get("value"), tagged["$py"]
    if kind == "dataframe" and isinstance(held, dict):
        return _render_dataframe(held)
    if kind == "series" and isinstance(held, dict):
        return _render_series(held, _render_cell(tagged.get("type")))
    return _render_array(held, _render_cell(tagged.get("type"))) if kind == "ndarray" else None


def _render_dataframe(held: dict[str, JsonValue]) -> list[str] | None:
    columns, index, rows = held.get("columns"), held.get("index"), held.get("rows")
    if not isinstance(columns, list) or not isinstance(index, list) or not isinstance(rows, list):
        return None
    types = held.get("dtypes")
    heads = [["", *_render_cells(columns)]] + (
        [["", *_render_cells(types)]] if isinstance(types, list) else []
    )
    shown = zip(index[:MAX_ROWS], rows[:MAX_ROWS], strict=False)
    body = [
        [_render_cell(label), *_render_cells(row if isinstance(row, list) else [row])] for label, row in shown
    ]
    size = f"dataframe, {_format_count(len(rows), 'row')} × {_format_count(len(columns), 'column')}"
    return [size, *_align_columns([*heads, *body]), *_render_omitted(len(rows), len(columns))]


def _render_series(held: dict[str, JsonValue], kind: str) -> list[str] | None:
    index, values = held.get("index"), held.get("values")
    if not isinstance(index, list) or not isinstance(values, list):
        return None
    pairs = zip(index[:MAX_ROWS], values[:MAX_ROWS], strict=False)
    body = [[_render_cell(label), _render_cell(value)] for label, value in pairs]
    named = "" if held.get("name") is None else f" {_render_cell(held['name'])}"
    return [
        f"series{named}, {_format_count(len(values), 'value')}, {kind}",
        *_align_columns(body),
        *_render_omitted(len(values), 0),
    ]


def _render_array(held: JsonValue, kind: str) -> list[str]:
    shape = _measure_array_shape(held)
    while _measure_array_shape(held)[2:] and isinstance(held, list):
        held = held[0]  # of more than two dimensions: the first plane
    rows: list[JsonValue] = held if isinstance(held, list) else [held]
    if len(shape) < 2:
        rows = [[*rows]]
    body = [_render_cells(row) for row in rows[:MAX_ROWS] if isinstance(row, list)]
    size = " × ".join(map(str, shape)) or "no dimensions"
    wide = len(rows[0]) if rows and isinstance(rows[0], list) else 0
    return [f"ndarray, {size}, {kind}", *_align_columns(body), *_render_omitted(len(rows), wide)]


def _measure_array_shape(value: JsonValue) -> list[int]:
    """Return the lengths of nested arrays, always descending into the first element."""
    found = []
    while isinstance(value, list):
        found.append(len(value))
        value = value[0] if value else None
    return found


def _align_columns(rows: Rows) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=False)).rstrip()


def _render_omitted(rows: int, columns: int) -> Iterator[str]:
    more = [
        _format_count(count - most, f"more {name}")
        for count, most, name in ((rows, MAX_ROWS, "row"), (columns, MAX_COLUMNS, "column"))
        if count > most
    ]
    if more:
        yield f"… {', '.join(more)}"


def _format_count(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def _render_cells(values: Sequence[JsonValue]) -> list[str]:
    return [_render_cell(value) for value in values[:MAX_COLUMNS]]


def _render_nested(value: list[JsonValue] | dict[str, JsonValue]) -> str:
    """Return an array as text, e.g. the labels of a multi-level index. Omit deeper levels."""
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    parts = ["…" if isinstance(one, list | dict) else _render_cell(one) for one in value[:_MAX_LABEL_LEVELS]]
    return shorten_text(
        f"[{', '.join(parts)}{', …' if len(value) > _MAX_LABEL_LEVELS else ''}]", MAX_CELL_CHARS
    )


def _render_cell(value: JsonValue) -> str:
    """Return a value as one line of limited length. Abbreviate nested values."""
    if isinstance(value, dict) and "$py" in value:
        held = value.get("value")
        value = held if isinstance(held, str) else f"{_render_cell(value['$py'])} …"
    if isinstance(value, list | dict):
        return _render_nested(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = value[:_MAX_READ_CHARS] if isinstance(value, str) else repr(value)
    return shorten_text(" ".join(text.split()), MAX_CELL_CHARS)


class StaticCheckDocument(BaseDocument):
    """The static stages of a submission that was checked without being recorded."""

    kind: str = Field(description="Kind of the submission.")
    policy: str = Field(description="Its profile.")
    stages: list[StageDocument] = Field(description="All stages, in order; those of a run are skipped.")
    findings: list[FindingDocument] = Field(description="All findings, in stage order.")
    fix_hints: list[FixHint] = Field(description="Suggested changes.")


def build_static_check_document(submission: Submission, stages: Sequence[StageReport]) -> StaticCheckDocument:
    """Return the document of a static check."""
    written = [build_stage_document(stage) for stage in stages]
    return StaticCheckDocument.model_construct(
        kind=submission.kind,
        policy=submission.policy,
        stages=written,
        findings=[finding for stage in written for finding in stage.findings],
        fix_hints=list(list_fix_hints(finding for stage in stages for finding in stage.findings)),
    )


_ILLEGAL_PATTERN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 can't represent, even escaped."""


def junit(report: Report) -> bytes:
    """Return a report as JUnit XML: one test case per case, or one per stage if nothing was run."""
    suite = ET.Element("testsuite", name=_replace_illegal_chars(f"{report.kind} {report.attempt_id}"))
    if report.cases:
        for case in report.cases:
            _add_case(suite, report.kind, case)
    else:
        for stage in report.stages:
            _add_stage(suite, report.kind, stage)
    tests = suite.findall("testcase")
    suite.set("tests", str(len(tests)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    suite.set("time", f"{sum(float(test.get('time', '0')) for test in tests):.6f}")
    if report.validated_at is not None:
        suite.set("timestamp", report.validated_at.isoformat(timespec="seconds"))
    text: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text


def _add_case(suite: ET.Element, kind: str, case: Case) -> None:
    test = _add_test(suite, kind, case.name, case.duration_s)
    detail = case.traceback or case.message or ""
    match case.status:
        case CaseStatus.FAILED:
            _add_outcome(test, "failure", case.error_type or "failed", case.message or "", detail)
        case CaseStatus.ERROR:
            _add_outcome(test, "error", case.cause or "error", case.message or "", detail)
        case CaseStatus.SKIPPED:
            ET.SubElement(test, "skipped")
        case CaseStatus.PASSED:
            pass
    for name, text in (("system-out", case.stdout), ("system-err", case.stderr)):
        if text:
            ET.SubElement(test, name).text = _replace_illegal_chars(text)


def _add_stage(suite: ET.Element, kind: str, stage: StageReport) -> None:
    test = _add_test(suite, kind, stage.name, stage.duration_s)
    lines = [f"line {finding.line}: {_indent_lines(finding.message)}" for finding in stage.findings]
    if stage.status is StageStatus.SKIPPED:
        ET.SubElement(test, "skipped")
    elif stage.status in {StageStatus.FAILED, StageStatus.ERROR}:
        tag = "failure" if stage.status is StageStatus.FAILED else "error"
        kind_of = stage.findings[0].rule if stage.findings else stage.status
        _add_outcome(test, tag, kind_of, lines[0] if lines else "", "\n".join(lines))


def _add_test(suite: ET.Element, kind: str, name: str, duration_s: float) -> ET.Element:
    return ET.SubElement(
        suite,
        "testcase",
        classname=_replace_illegal_chars(kind),
        name=_replace_illegal_chars(name),
        time=f"{duration_s:.6f}",
    )


def _add_outcome(test: ET.Element, tag: str, kind: str, message: str, detail: str) -> None:
    ET.SubElement(
        test, tag, type=_replace_illegal_chars(kind), message=_replace_illegal_chars(message)
    ).text = _replace_illegal_chars(detail)


def _indent_lines(text: str) -> str:
    """Indent all lines except the first, so that guest text can't imitate lines of the report."""
    return text.replace("\n", "\n    ")


def _replace_illegal_chars(text: str) -> str:
    return _ILLEGAL_PATTERN.sub("\N{REPLACEMENT CHARACTER}", text)
