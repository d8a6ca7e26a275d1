"""Show a finished attempt to a person: stages, verdict, findings with their source, results, cause."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rich.text import Text

from assayd.cli.kinds import command_line_of
from assayd.cli.terminal import plain, shorten
from assayd.client import Document

MARKS = {
    "passed": ("✓", "green"),
    "warned": ("⚠", "yellow"),
    "failed": ("✗", "red"),
    "error": ("!", "red"),
    "skipped": ("–", "dim"),
}
MAX_FINDINGS = 20
MAX_CASES = 10
INTENT_CHARS = 200


def render(attempt: Document) -> Iterator[Text]:
    """Return the lines that show a finished attempt."""
    report = attempt["report"]
    yield Text.assemble(
        (attempt["id"], "bold"), f"  {plain(attempt['kind'])} · policy {plain(attempt['policy'])}"
    )
    if attempt.get("intent"):
        yield Text(f"Asked for: {plain(shorten(' '.join(attempt['intent'].split()), INTENT_CHARS))}")
    if report is not None:
        yield from render_stages(report["stages"])
    yield verdict_line(attempt)
    if attempt["error"] is not None:
        yield Text(f"{plain(attempt['error']['code'])}: {plain(attempt['error']['message'])}", "red")
    if report is not None:
        yield from _findings(report["findings"])
        yield from _cases(report["runtime_results"], attempt["kind"])
    if attempt["execution"] is not None:
        yield from _execution(attempt["execution"])
    if attempt["bundle"] is not None:
        yield Text()
        yield Text(f"Bundle: {plain(attempt['bundle'])}", "dim")


def render_stages(stages: Sequence[Document]) -> Iterator[Text]:
    """Return a line per stage, as a tree."""
    width = max((len(stage["name"]) for stage in stages), default=0)
    for stage in stages:
        mark, style = MARKS[stage["status"]]
        branch = "└─" if stage is stages[-1] else "├─"
        line = Text.assemble((branch, "dim"), f" {plain(stage['name']):<{width}}  ", (mark, style))
        if stage["status"] == "skipped":
            line.append(" skipped", "dim")
        else:
            line.append(f" {duration(stage['duration_ms'])}", "dim")
        if found := len(stage["findings"]):
            line.append(f"  {count(found, 'finding')}", style)
        yield line


def verdict_line(attempt: Document) -> Text:
    """Describe in one line what an attempt came to."""
    report, verdict = attempt["report"], attempt["verdict"]
    cases = report and report["runtime_results"]
    detail = f" ({_tally(cases, attempt['kind'])})" if cases and cases["total"] else ""
    if verdict == "validated":
        warned = any(finding["severity"] == "warning" for finding in report["findings"])
        return Text.assemble("Validation: ", ("✓ Passed", "bold green"), " with warnings" * warned, detail)
    if verdict == "failed":
        return Text.assemble(
            "Validation: ", ("✗ Failed", "bold red"), f" at {report['stage_reached']}{detail}"
        )
    if verdict == "cancelled":
        return Text.assemble("Validation: ", ("– Cancelled", "bold yellow"))
    if verdict is None:
        return Text(f"Not finished yet: {attempt['state']}")
    return Text.assemble("Validation: ", ("! Error", "bold red"), "; nothing is known of the code")


def duration(milliseconds: float) -> str:
    """Write a duration the way a person reads it."""
    if milliseconds < 100:
        return f"{milliseconds:.1f}ms"
    return f"{milliseconds:.0f}ms" if milliseconds < 1000 else f"{milliseconds / 1000:.2f}s"


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _tally(cases: Document, kind: str) -> str:
    ran = [case["duration_ms"] for case in cases["cases"] if case["status"] != "skipped"]
    average = f", avg {duration(sum(ran) / len(ran))}" if ran else ""
    return f"{cases['passed']}/{count(cases['total'], command_line_of(kind).case)}{average}"


def _findings(findings: Sequence[Document]) -> Iterator[Text]:
    for finding in findings[:MAX_FINDINGS]:
        yield Text()
        style = {"error": "red", "warning": "yellow"}.get(finding["severity"], "blue")
        head = f"{finding['severity']}[{plain(finding['rule'])}]"
        yield Text.assemble((head, f"bold {style}"), f" {plain(finding['message'])}")
        yield from _excerpt(finding, style)
        if finding["suggestion"]:
            yield Text.assemble(("   = fix: ", "cyan"), plain(finding["suggestion"]))
    if len(findings) > MAX_FINDINGS:
        yield Text(f"\n… and {count(len(findings) - MAX_FINDINGS, 'more finding')}", "dim")


def _excerpt(finding: Document, style: str) -> Iterator[Text]:
    """Show the source with its line numbers, and a caret under the column."""
    if finding["file"] is not None:
        yield Text(f"  in {plain(finding['file'])}", "dim")
    if finding["line"] is None or not finding["snippet"]:
        if finding["line"] is not None:
            yield Text(f"  line {finding['line']}", "dim")
        return
    lines = plain(finding["snippet"].rstrip("\n").expandtabs(4)).split("\n")
    width = len(str(finding["line"] + len(lines) - 1)) + 2
    for number, source in enumerate(lines, finding["line"]):
        yield Text.assemble((f"{number:>{width}} │ ", "dim"), source)
        column = finding["column"]
        if number == finding["line"] and column is not None and column <= len(source):
            yield Text.assemble((f"{'':>{width}} │ ", "dim"), " " * (column - 1), ("^", f"bold {style}"))


def _cases(results: Document | None, kind: str) -> Iterator[Text]:
    if not results or not results["cases"]:
        return
    cases = results["cases"]
    yield Text("\nPreview", "bold")
    names = [_short_name(case["name"], cases) for case in cases[:MAX_CASES]]
    width = min(max(map(len, names)), 40)
    for name, case in zip(names, cases, strict=False):
        mark, style = MARKS[case["status"]]
        yield Text.assemble("  ", (mark, style), f" {name:<{width}} → ", _result(case, kind))
    if len(cases) > MAX_CASES:
        yield Text(f"  … and {len(cases) - MAX_CASES} more", "dim")


def _short_name(name: str, cases: Sequence[Document]) -> str:
    """Return the last part of a path, unless another case ends the same."""
    last = name.rstrip("/").rpartition("/")[2]
    alike = [case for case in cases if case["name"].rstrip("/").rpartition("/")[2] == last]
    return shorten(last if len(alike) == 1 else name, 60)


def _result(case: Document, kind: str) -> Text:
    if case["status"] == "passed":
        has_result = command_line_of(kind).cases_have_results
        return Text(shorten(_brief(case["result"]), 100) if has_result else "passed")
    if case["status"] == "skipped":
        return Text(shorten(plain(case["message"] or "never started"), 100), "dim")
    error = f"{case['error_type']}: " if case["error_type"] else ""
    file = f"{plain(case['file'])} " if case["file"] is not None else ""
    line = f" ({file}line {case['line']})" if case["line"] is not None else ""
    reason = case["message"] or case["cause"] or case["status"]
    return Text(shorten(f"{error}{reason}{line}", 100), "red")


def _brief(value: object) -> str:
    """Write JSON with bare keys, as a person would."""
    if isinstance(value, dict):
        members = (
            f"{key if key.isidentifier() else json.dumps(key)}: {_brief(v)}" for key, v in value.items()
        )
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_brief, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _execution(execution: Document) -> Iterator[Text]:
    evidence = "".join(
        f", {key} {_brief(value)}" for key, value in sorted(execution["cause_evidence"].items())
    )
    yield Text()
    peak = execution["peak_memory_bytes"] / 2**20
    start = "warm" if execution["container"]["warm"] else "cold"
    if execution["cause"] != "completed":
        yield Text(f"Cause: {execution['cause']}{plain(evidence)}", "red")
    yield Text(
        f"Ran {duration(execution['execution_time_ms'])}, peak {peak:.0f} MiB, {start} container", "dim"
    )
