"""Shows a finished attempt to a user, from its stages and verdict to its output and files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from assayd.model.text_limits import SNIPPET_CHARS
from assayd_client import Document
from assayd_client.cli.kinds import get_command_line
from assayd_client.cli.terminal import (
    BLANK_ELLIPSIS,
    WIDTH_WHEN_PIPED,
    StyledLine,
    build_line,
    format_count,
    format_duration,
    measure_display_width,
    plain,
    shorten,
)
from assayd_client.trees import group_by_shape


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionOrigin:
    """The local paths and texts of a submission's files, by their submitted names."""

    paths: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, bytes] = field(default_factory=dict)

    def place(self, finding: Document) -> tuple[str | None, int | None]:
        """Return a finding's location as ``FILE[:LINE[:COLUMN]]`` or None, and its line number or None."""
        shown, number = self.locate_finding(finding)
        if shown is None or number is None:
            return shown, finding["line"]
        column = "" if finding["column"] is None else f":{finding['column']}"
        return f"{shown}:{number}{column}", number

    def locate_finding(self, finding: Document) -> tuple[str | None, int | None]:
        """Return the file and the line of a finding, each of which can be None."""
        name, number = self._get_submitted_name(finding), finding["line"]
        if name is None:
            return finding["file"], number
        return self.paths[name], _locate_line(self.texts[name], number, finding["snippet"])

    def source(self, finding: Document) -> list[str]:
        """Return the source lines of a finding.

        If the report truncates the first line, it is completed from the source.
        """
        first, *others = (finding["snippet"] or "").rstrip("\n").split("\n")
        name = self._get_submitted_name(finding)
        if (
            name is not None
            and (number := self.locate_finding(finding)[1]) is not None
            and is_truncated(first)
        ):
            first = _split_source_lines(self.texts[name])[number - 1]
        return [first.removesuffix("\r"), *others]

    def _get_submitted_name(self, finding: Document) -> str | None:
        """Return the submitted name of the file to which a finding refers, or None if it is ambiguous."""
        file = finding["file"]
        if file is None:
            return next(iter(self.paths)) if len(self.paths) == 1 else None
        if file in self.paths:
            return str(file)
        alike = [name for name in self.paths if file in {PurePath(name).name, PurePath(name).stem}]
        if len(alike) > 1:  # sales.sql next to sales.csv
            alike = [
                name
                for name in alike
                if _contains_snippet(self.texts[name], finding["line"], finding["snippet"])
            ]
        return alike[0] if len(alike) == 1 else None


UNKNOWN = SubmissionOrigin()
"""The origin of an attempt whose files aren't available."""


def _locate_line(text: bytes, number: int | None, snippet: str | None) -> int | None:
    """Return the line in the local file on which a finding's snippet is, or None if ambiguous."""
    if number is None or not snippet:
        return number
    wanted = snippet.split("\n", 1)[0]
    lines = _split_source_lines(text)
    if number <= len(lines) and _matches_snippet(lines[number - 1], wanted):
        return number
    same = [place for place, line in enumerate(lines, 1) if _matches_snippet(line, wanted)]
    return same[0] if len(same) == 1 else None


def _split_source_lines(text: bytes) -> list[str]:
    """Return the lines of a source, split as findings number them.

    For example, a form feed doesn't end a line.
    """
    return text.decode("utf-8", "replace").split("\n")


def _matches_snippet(line: str, snippet: str) -> bool:
    if is_truncated(snippet):
        return line.strip().startswith(snippet[:-1].strip())
    return line.strip() == snippet.strip()


def is_truncated(snippet: str) -> bool:
    """Return whether a snippet contains only the beginning of a line that was too long."""
    return len(snippet) == SNIPPET_CHARS and snippet.endswith("…")


def _contains_snippet(text: bytes, number: int | None, snippet: str | None) -> bool:
    return bool(snippet) and _locate_line(text, number, snippet) is not None


TAB = 4
NAME = re.compile(r"\w+(?:\.\w+)*")


def find_name_end(source: str, begin: int) -> int:
    """Return the end index of the dotted name at `begin`, or `begin + 1` if there isn't a name."""
    found = NAME.match(source, begin)
    return found.end() if found else begin + 1


def crop_line(source: str, column: int | None, room: int) -> tuple[str, str]:
    """Return the part of a line that fits the width, with the marks to be shown below it.

    There aren't any marks if the column is unknown or beyond the line's end. The position directly after
    the last character is allowed, because a character may be missing at this position.

    Args:
        source: one line, without its line ending.
        column: the column in characters of the source, from 1.
        room: the width of the terminal in columns.
    """
    shown = _to_displayed_characters(source)
    widths = [measure_display_width(each) for each in shown]
    begin = end = 0
    marked = column is not None and 0 < column <= len(source) + 1
    if column is not None and marked:
        begin = column - 1
        end = min(find_name_end(source, begin), len(source))
    first, last = _find_visible_range(widths, begin, end, room)
    head, tail = "…" if first else "", "…" if last < len(shown) else ""
    text = f"{head}{''.join(shown[first:last])}{tail}"
    if not marked:
        return text, ""
    blank = (BLANK_ELLIPSIS if first else "") + " " * sum(widths[first:begin])
    return text, blank + "^" * max(sum(widths[begin : min(end, last)]), 1)


def _to_displayed_characters(source: str) -> list[str]:
    """Return each character as displayed, with tabs as spaces and control characters as codes."""
    shown: list[str] = []
    at = 0
    for character in source:
        piece = " " * (TAB - at % TAB) if character == "\t" else plain(character)
        shown.append(piece)
        at += measure_display_width(piece)
    return shown


def _find_visible_range(widths: Sequence[int], begin: int, end: int, room: int) -> tuple[int, int]:
    """Return the start and end index of the displayed part, with one column for each ellipsis."""
    if sum(widths) <= room:
        return 0, len(widths)
    first = 0
    if sum(widths[:end]) >= room:
        first, before = begin, 0
        while first and before + widths[first - 1] <= room // 2:
            first -= 1
            before += widths[first]
    last, used = first, 2 if first else 1
    while last < len(widths) and used + widths[last] <= room:
        used += widths[last]
        last += 1
    return first, last


MARKS = {
    "passed": ("✓", "green"),
    "warned": ("⚠", "yellow"),
    "failed": ("✗", "red"),
    "error": ("!", "red"),
    "skipped": ("–", "dim"),
}
MAX_FINDINGS = 20
"""Maximum number of groups of equal findings to show."""
MAX_LINES = 20
"""Maximum number of further lines to list for equal findings."""
MAX_CASES = 10
MIN_GROUPED_PATHS = 4
"""Minimum number of an extractor's paths that a report groups by shape."""
TABLES = ("dataframe", "ndarray", "series")
"""Tags of values that have a preview below the line of their case."""
MAX_PREVIEW_LINES = 30
"""Maximum number of lines of each preview of a table."""
MIN_SOURCE_WIDTH = 16
"""Minimum number of columns of a source line, even on a narrow terminal."""
MAX_SHOWN_INTENT_CHARS = 200
MAX_OUTPUT_LINES = 20
"""Maximum number of lines of the code's output to show; `assay logs` shows the complete output."""
MAX_OUTPUT_CHARS = 500
"""Maximum number of characters of one output line."""


def iter_report_lines(
    attempt: Document,
    origin: SubmissionOrigin = UNKNOWN,
    *,
    width: int | None = None,
    verdict_last: bool = True,
) -> Iterator[StyledLine]:
    """Yield the lines that show a finished attempt, with source cropped to the terminal's width.

    The verdict is the last line, because a terminal shows the end of the output. If `verdict_last` is False,
    the verdict is below the stages.
    """
    report = attempt["report"]
    mode = " · report-only" if attempt.get("enforcement") == "report" else ""
    yield build_line(
        (attempt["id"], "bold"), f"  {plain(attempt['kind'])} · policy {plain(attempt['policy'])}{mode}"
    )
    if attempt.get("intent"):
        yield build_line(
            f"Request: {plain(shorten(' '.join(attempt['intent'].split()), MAX_SHOWN_INTENT_CHARS))}"
        )
    if report is not None:
        yield from iter_stage_lines(report["stages"])
    if not verdict_last:
        yield build_verdict_line(attempt)
    if attempt["error"] is not None:
        yield build_line(
            (f"{plain(attempt['error']['code'])}: {plain(attempt['error']['message'])}", "red"), hang=2
        )
    yield from _iter_detail_lines(attempt, origin, width)
    if verdict_last:
        yield build_line("")
        yield build_verdict_line(attempt)


def _iter_detail_lines(
    attempt: Document, origin: SubmissionOrigin, width: int | None
) -> Iterator[StyledLine]:
    report = attempt["report"]
    if report is not None:
        yield from iter_finding_lines(report["findings"], origin, width)
        yield from _iter_case_lines(report["runtime_results"], attempt["kind"])
    if attempt["execution"] is not None:
        yield from _iter_output_lines(attempt["execution"], attempt["id"])
        yield from _iter_execution_lines(attempt["execution"])
    if report is None and attempt["verdict"] in {"validated", "failed"}:
        yield build_line((_explain_missing_report(attempt), "yellow"), hang=2)
    elif attempt["bundle"] is not None:
        yield build_line("")
        yield build_line((f"Bundle: {describe_files_location(attempt)}", "dim"), hang=None)


def _explain_missing_report(attempt: Document) -> str:
    """Return the reason why a finished attempt has no report."""
    if attempt["bundle"] is None:
        return "Its bundle (report, output, files) was deleted to free disk space; the verdict remains."
    return "Its bundle (report, output, files) is missing or damaged; the verdict remains."


def describe_files_location(attempt: Document) -> str:
    """Return the folder of an attempt's files if this user can read it.

    Otherwise, return the command that fetches the files.
    """
    folder = attempt.get("bundle_path")
    # Not Path.is_dir(), which raises for a folder below one that this user can't enter, as the daemon's is.
    if folder is not None and os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK):  # noqa: PTH112
        return plain(folder)
    return f"assay artifacts {attempt['id']} --extract DIR"


def iter_stage_lines(stages: Sequence[Document]) -> Iterator[StyledLine]:
    """Yield one line for each stage, indented as a tree."""
    width = max((len(stage["name"]) for stage in stages), default=0)
    for stage in stages:
        mark, style = MARKS[stage["status"]]
        branch = "└─" if stage is stages[-1] else "├─"
        took = "skipped" if stage["status"] == "skipped" else format_duration(stage["duration_ms"])
        found = f"  {format_count(len(stage['findings']), 'finding')}" if stage["findings"] else ""
        yield build_line(
            (branch, "dim"),
            f" {plain(stage['name']):<{width}}  ",
            (mark, style),
            (f" {took}", "dim"),
            (found, style),
        )


def build_verdict_line(attempt: Document) -> StyledLine:
    """Return the verdict as one line with failed stage, passed cases, number of errors, and duration."""
    report, verdict = attempt["report"], attempt["verdict"]
    cases = report and report["runtime_results"]
    detail = (
        f" ({_format_cases(cases, attempt['kind'])}{_format_score(report)})"
        if cases and cases["total"]
        else ""
    )
    took_ms = attempt["timings_ms"]["total"]
    took = "" if took_ms is None else f", {format_duration(took_ms)}"
    if verdict == "validated":
        warned = any(finding["severity"] == "warning" for finding in (report or {}).get("findings", ()))
        return build_line("Validation: ", ("✓ Passed", "bold green"), " with warnings" * warned, detail, took)
    if verdict == "failed":
        if report is None:
            return build_line("Validation: ", ("✗ Failed", "bold red"), detail, took)
        errors = sum(finding["severity"] == "error" for finding in report["findings"])
        found = f": {format_count(errors, 'error')}{took}"
        return build_line(
            "Validation: ", ("✗ Failed", "bold red"), f" at {report['stage_reached']}{detail}{found}"
        )
    if verdict == "cancelled":
        return build_line("Validation: ", ("– Cancelled", "bold yellow"), took)
    if verdict is None:
        return build_line(f"Not finished yet: {attempt['state']}")
    return build_line("Validation: ", ("! Internal error", "bold red"), "; the code wasn't judged", took)


def _format_cases(cases: Document, kind: str) -> str:
    ran = [case["duration_ms"] for case in cases["cases"] if case["status"] != "skipped"]
    average = f", avg {format_duration(sum(ran) / len(ran))}" if ran else ""
    return f"{cases['passed']}/{format_count(cases['total'], get_command_line(kind).case)}{average}"


def _format_score(report: Document) -> str:
    """Return the score of hidden tests and its integrity as text, or an empty string."""
    score = report.get("score")
    return "" if score is None else f"; score {score:.3g}, {plain(report['integrity'])}"


def iter_finding_lines(
    findings: Sequence[Document], origin: SubmissionOrigin, width: int | None
) -> Iterator[StyledLine]:
    """Yield the lines of findings with their locations.

    Equal findings at several locations are shown once.
    """
    groups = _group_findings(findings)
    for group in groups[:MAX_FINDINGS]:
        finding = group[0]
        yield build_line("")
        style = {"error": "red", "warning": "yellow"}.get(finding["severity"], "blue")
        head = f"{finding['severity']}[{plain(finding['rule'])}]"
        yield build_line((head, f"bold {style}"), f" {plain(finding['message'])}", hang=2)
        yield from _iter_excerpt_lines(finding, origin, style, width)
        if others := _describe_other_locations(group, origin):
            yield build_line((f"   = also: {others}", "dim"), hang=11)
        if finding["suggestion"]:
            yield build_line(("   = fix: ", "cyan"), plain(finding["suggestion"]), hang=10)
        if (key := finding.get("profile_key")) not in {None, "enforcement"}:
            yield build_line((f"   = profile key: {plain(str(key))}", "dim"))
    if len(groups) > MAX_FINDINGS:
        more = sum(map(len, groups[MAX_FINDINGS:]))
        yield build_line("")
        yield build_line((f"… and {format_count(more, 'more finding')}", "dim"))


def _group_findings(findings: Sequence[Document]) -> list[list[Document]]:
    """Return groups of findings that differ only in location, grouped as in a retry context."""
    groups: dict[tuple[object, ...], list[Document]] = {}
    for one in findings:
        key = tuple(one[name] for name in ("severity", "rule", "message", "suggestion", "file"))
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _describe_other_locations(group: Sequence[Document], origin: SubmissionOrigin) -> str:
    """Return text with the lines of a group's other findings or, without lines, their number."""
    first, *others = group
    numbers = {origin.place(one)[1] for one in others} - {origin.place(first)[1]}
    lines = sorted(number for number in numbers if number is not None)
    if not lines:
        return f"{len(others)} more of the same" if others else ""
    shown = ", ".join(map(str, lines[:MAX_LINES]))
    more = len(lines) - MAX_LINES
    return f"line{'s' * (len(lines) > 1)} {shown}" + (f" and {more} more" if more > 0 else "")


def _iter_excerpt_lines(
    finding: Document, origin: SubmissionOrigin, style: str, width: int | None
) -> Iterator[StyledLine]:
    """Yield the location, the numbered source lines, and a mark below the finding's name."""
    place, first = origin.place(finding)
    if place is not None:
        yield build_line((f"  --> {plain(place)}", "dim"), hang=None)
    elif first is not None and not finding["snippet"]:
        yield build_line((f"  line {first}", "dim"))
    if first is None or not finding["snippet"]:
        return
    lines = origin.source(finding)
    gutter = len(str(first + len(lines) - 1)) + 2
    room = max((width or WIDTH_WHEN_PIPED) - gutter - 3, MIN_SOURCE_WIDTH)
    for number, source in enumerate(lines, first):
        column = finding["column"] if number == first else None
        if column is not None and is_truncated(source) and column >= len(source):
            column = None  # in the part that the report omits
        shown, marks = crop_line(source, column, room)
        yield build_line((f"{number:>{gutter}} │ ", "dim"), shown, hang=None)
        if marks:
            yield build_line((f"{'':>{gutter}} │ ", "dim"), (marks, f"bold {style}"), hang=None)


def _iter_case_lines(results: Document | None, kind: str) -> Iterator[StyledLine]:
    if not results or not results["cases"]:
        return
    # Readers look for failed cases, so these come before passed ones.
    cases = sorted(results["cases"], key=lambda case: case["status"] == "passed")
    if len(cases) <= MAX_CASES:
        cases = results["cases"]
    yield build_line("")
    yield build_line(("Preview", "bold"))
    names = [_shorten_name(case["name"], cases) for case in cases[:MAX_CASES]]
    width = min(max(map(len, names)), 40)
    for name, case in zip(names, cases, strict=False):
        mark, style = MARKS[case["status"]]
        yield build_line("  ", (mark, style), f" {name:<{width}} → ", hang=6) + _build_result_line(case, kind)
        for row in (case.get("preview") or "").splitlines()[:MAX_PREVIEW_LINES]:
            yield build_line(f"      {plain(row)}".rstrip(), hang=None)
    if len(cases) > MAX_CASES:
        yield build_line((f"  … and {len(cases) - MAX_CASES} more", "dim"))
    if get_command_line(kind).case == "path":
        yield from _iter_shape_lines(cases)


def _iter_shape_lines(cases: Sequence[Document]) -> Iterator[StyledLine]:
    """Yield the number of path shapes with extracted fields, and one path of each other shape."""
    got = {case["name"]: case["status"] == "passed" and case["result"] != {} for case in cases}
    groups = group_by_shape(got)
    if len(cases) < MIN_GROUPED_PATHS or len(groups) == 1:
        return
    without = [group for group in groups.values() if not all(got[path] for path in group)]
    yield build_line("")
    yield build_line(
        (f"Fields extracted from {len(groups) - len(without)} of {len(groups)} shapes of paths", "bold")
    )
    for group in without[:MAX_CASES]:
        right = sum(got[path] for path in group)
        example = next(path for path in group if not got[path])
        yield build_line(
            "  ", ("✗", "red"), f" {right}/{format_count(len(group), 'path')} like {plain(example)}", hang=4
        )
    if len(without) > MAX_CASES:
        yield build_line((f"  … and {format_count(len(without) - MAX_CASES, 'more shape')}", "dim"))


def _shorten_name(name: str, cases: Sequence[Document]) -> str:
    """Return the last part of a path, or the complete path if another case has the same last part."""
    last = name.rstrip("/").rpartition("/")[2]
    alike = [case for case in cases if case["name"].rstrip("/").rpartition("/")[2] == last]
    return shorten(last if len(alike) == 1 else name, 60)


def _build_result_line(case: Document, kind: str) -> StyledLine:
    if case["status"] == "passed":
        has_result = get_command_line(kind).cases_have_results
        return build_line(
            shorten(_render_compact_json(restore_field_order(case)), 100) if has_result else "passed"
        )
    if case["status"] == "skipped":
        return build_line((shorten(plain(case["message"] or "never started"), 100), "dim"))
    error = f"{case['error_type']}: " if case["error_type"] else ""
    file = f"{plain(case['file'])} " if case["file"] is not None else ""
    place = f" ({file}line {case['line']})" if case["line"] is not None else ""
    reason = case["message"] or case["cause"] or case["status"]
    return build_line((shorten(f"{error}{reason}{place}", 100), "red"))


def restore_field_order(case: Document) -> object:
    """Return the result of a case with its fields in the order in which the code returned them, if known."""
    text = case.get("result_text")
    return case["result"] if text is None else json.loads(text)


def _render_compact_json(value: object) -> str:
    """Return JSON with unquoted keys, for display only."""
    if isinstance(value, dict) and value.get("$py") in TABLES and isinstance(value.get("type"), str):
        return f"{value['$py']} ({value['type']})"
    if isinstance(value, dict):
        members = (
            f"{key if key.isidentifier() else json.dumps(key)}: {_render_compact_json(v)}"
            for key, v in value.items()
        )
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_render_compact_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _iter_execution_lines(execution: Document) -> Iterator[StyledLine]:
    evidence = "".join(
        f", {key} {_render_compact_json(value)}" for key, value in sorted(execution["cause_evidence"].items())
    )
    yield build_line("")
    start = "warm" if execution["container"]["warm"] else "cold"
    if execution["cause"] != "completed":
        yield build_line((f"Cause: {execution['cause']}{plain(evidence)}", "red"), hang=2)
    took = format_duration(execution["execution_time_ms"])
    # The limit applies to the code only, while the peak is the whole container's.
    whose = " with the runner" if execution["cause"] == "out_of_memory" else ""
    yield build_line(
        (f"Ran {took}, {_format_peak(execution['peak_memory_bytes'])}{whose}, {start} container", "dim")
    )


def _format_peak(used_bytes: int | None) -> str:
    return "memory not measured" if used_bytes is None else f"peak {used_bytes / 2**20:.0f} MiB"


def _iter_output_lines(execution: Document, attempt_id: str) -> Iterator[StyledLine]:
    """Yield the last lines of the code's standard output and standard error."""
    for stream in ("stdout", "stderr"):
        text = execution[stream]
        if not text.strip():
            continue
        lines = plain(text.rstrip("\n").expandtabs(8)).split("\n")
        before = len(lines) - MAX_OUTPUT_LINES
        yield build_line("")
        yield build_line((f"Printed ({stream})", "bold"))
        if before > 0:
            kept = f"assay logs {attempt_id} --stream {stream}"
            yield build_line((f"  … {format_count(before, 'line')} before; all: {kept}", "dim"), hang=4)
        for each in lines[-MAX_OUTPUT_LINES:]:
            cut = f"{each[:MAX_OUTPUT_CHARS]}…" if len(each) > MAX_OUTPUT_CHARS else each
            yield build_line(f"  {cut}", hang=2)
