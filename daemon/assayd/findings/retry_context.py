"""Formats the findings of a failed stage as the retry context for a model.

This module only decides form and size. The context contains a headline, up to twenty findings, the number
of further findings, and reminders. Equal findings are merged, with a list of their lines. Each field is on
one line; text that a guest may control is in quotation marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from assayd.model.finding import Edit, Finding, Layer, Severity
from assayd.model.merge import is_quality_finding
from assayd.model.prompting import EditedPart, PromptContext, RepairContext, RetryBenefit, SourcePart
from assayd.model.text_limits import MAX_RETRY_CONTEXT_BYTES, MAX_RETRY_FINDINGS, shorten_text

_MAX_TEXT_FIELD_CHARS = 1500
_QUOTES = "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"
_NO_QUOTES = str.maketrans(dict.fromkeys(_QUOTES, '"'))
_MAX_LINES = 20
_REMINDERS_HEADING = "\n\nKeep in mind:\n"


PASSED = "complete"
"""The stage that an attempt reaches if no stage failed."""


def select_headline(headlines: Mapping[str, str], stage: str) -> str:
    """Return the headline for a failed stage, or for a submission that passed with quality findings.

    A stage without an entry in `headlines` gets a general headline.
    """
    if stage == PASSED:
        return "The submission passed, but its result may be of little use:"
    return headlines.get(stage, f"The submission failed at {stage}:")


def build_retry_context(findings: Sequence[Finding], *, headline: str, reminders: Sequence[str] = ()) -> str:
    """Return the retry context with errors and quality findings, or with warnings if there are neither.

    If it exceeds `MAX_RETRY_CONTEXT_BYTES`, it is truncated.
    """
    told = [f for f in findings if f.is_error or is_quality_finding(f)]
    told = told or [f for f in findings if f.severity is Severity.WARNING]
    lines = [headline, ""]
    groups = _group_findings(told)
    for number, group in enumerate(groups[:MAX_RETRY_FINDINGS], 1):
        lines.extend(_describe_group(number, group))
    more = len(groups) - MAX_RETRY_FINDINGS
    if more > 0:
        lines.append(f"… and {more} more.")
    if reminders:
        lines[-1] += _REMINDERS_HEADING + "\n".join(f"- {reminder}" for reminder in reminders)
    return _truncate("\n".join(lines).rstrip() + "\n")


def strip_reminders(text: str) -> str:
    """Return a retry context without reminders, for a prompt that states them separately.

    No finding can contain the line that begins the reminders, because each field of a finding follows fixed
    words on a single line.
    """
    return text.partition(_REMINDERS_HEADING)[0]


def _group_findings(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Group findings that differ only in their line number."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for f in findings:
        key = (f.file, f.rule, f.message, f.suggestion, f.context, id(f) if f.line is None else None)
        groups.setdefault(key, []).append(f)
    return list(groups.values())


def _format_lines(group: Sequence[Finding]) -> str | None:
    lines = sorted({f.line for f in group if f.line is not None})
    if len(lines) < 2:
        return f"line {lines[0]}" if lines else None
    shown = ", ".join(map(str, lines[:_MAX_LINES]))
    more = len(lines) - _MAX_LINES
    return f"lines {shown}" + (f" and {more} more" if more > 0 else "")


def _describe_group(number: int, group: Sequence[Finding]) -> Iterator[str]:
    finding = group[0]
    parts = (finding.file, _format_lines(group))
    place = _to_single_line(", ".join(part for part in parts if part is not None))
    message = _quote(finding.message) if finding.layer is Layer.RUNTIME else _to_single_line(finding.message)
    yield f"{number}. {place}{': ' * bool(place)}{message} [{finding.rule}]"
    if finding.snippet:
        yield f"   Code: {_to_single_line(finding.snippet)}"
    if finding.context:
        yield f"   Seen: {_quote(finding.context)}"
    if finding.suggestion:
        yield f"   Fix: {_to_single_line(finding.suggestion)}"


def _quote(text: str) -> str:
    """Return text that a guest may control, in quotation marks that the text can't contain."""
    return _QUOTES[0] + _to_single_line(text).translate(_NO_QUOTES) + _QUOTES[1]


def _to_single_line(text: str) -> str:
    """Return text as one line without invisible characters, so that guest text can't begin a new line."""
    seen = text
    if not text.isprintable():
        seen = "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)
    return shorten_text(" ".join(seen.split()), _MAX_TEXT_FIELD_CHARS)


def _truncate(text: str) -> str:
    encoded = text.encode("utf-8")
    if len(encoded) <= MAX_RETRY_CONTEXT_BYTES:
        return text
    return encoded[: MAX_RETRY_CONTEXT_BYTES - 4].decode("utf-8", "ignore") + "…\n"


MAX_STDERR_CHARS = 4000
"""Maximum characters of the failed case's standard error to keep, from its end."""

_RESULT_PATTERN = re.compile(
    r"(case|result|quality|collect)\.|tests\.failed|\w+\.(timeout|out_of_\w+|data_validation)$"
)
"""Rules about wrong results and exceeded limits."""

Report = Mapping[str, object]
Hint = Mapping[str, object]


def build_repair_context(  # noqa: PLR0913  (each says another thing of the request)
    passage: SourcePart,
    report: Report,
    *,
    instructions: Sequence[str],
    runtime_stages: Sequence[str],
    surroundings: Sequence[PromptContext] = (),
    about: Callable[[Hint], bool] = lambda _: True,
    others: Sequence[tuple[SourcePart, Callable[[Hint], bool]]] = (),
    title: str = "",
    other_forms: Sequence[str] = (),
) -> RepairContext:
    """Return the request to fix a passage. It includes the contents of the passage's report.

    `about` selects the hints about the passage, i.e. those whose edits apply to it. `others` contains
    further passages with their selectors.
    """
    return RepairContext(
        passage=passage,
        failure=strip_reminders(str(report.get("retry_context") or "It was refused.")),
        instructions=tuple(instructions),
        surroundings=(*_iter_stderr_context(report), *surroundings),
        worth=_estimate_retry_benefit(report, runtime_stages),
        edits=tuple(_iter_edits(report, about)),
        others=tuple(_iter_edited_passages(report, others)),
        title=title,
        other_forms=tuple(other_forms),
    )


_UNREADABLE = re.compile(r"(?:syntax|answer)\.|shell\.syntax$")
_SELF_CONTAINED_PATTERN = re.compile(
    r"(?:signature|manifest|entry_point|paths?|shell|sql|forbidden|required|structure)\.|"
    r"step\.(?!command_not_found)|annotations\.(?!not_imported)|inputs\.(?!requires)|"
    r"contract\.(?!import)|(?:sandbox\.raised|tests\.failed)$"
)
"""Rules whose fix needs no other module, command or name."""


def is_unreadable(report: Report) -> bool:
    """Return whether there are errors and all of them report invalid syntax, so that no further check ran."""
    rules = [str(finding.get("rule")) for finding in list_errors(report)]
    return bool(rules) and all(map(_UNREADABLE.match, rules))


def depends_on_allowances(report: Report, runtime_stages: Sequence[str]) -> bool:
    """Return whether a fix may depend on the allowed modules and commands.

    This is the case if the approach may be wrong, or if not all errors are known to be unrelated to names.
    """
    rules = [str(finding.get("rule")) for finding in list_errors(report)]
    return _estimate_retry_benefit(report, runtime_stages) is RetryBenefit.MEDIUM or not all(
        map(_SELF_CONTAINED_PATTERN.match, rules)
    )


def _estimate_retry_benefit(report: Report, runtime_stages: Sequence[str]) -> RetryBenefit:
    """Return the benefit of another try: MEDIUM for a wrong result or exceeded limit, otherwise HIGH."""
    rules = [str(finding.get("rule")) for finding in list_errors(report)]
    ran = report.get("stage_reached") in runtime_stages
    return RetryBenefit.MEDIUM if ran and any(map(_RESULT_PATTERN.match, rules)) else RetryBenefit.HIGH


def _iter_edited_passages(
    report: Report, others: Sequence[tuple[SourcePart, Callable[[Hint], bool]]]
) -> Iterator[EditedPart]:
    """Yield the passages that are edited by a hint."""
    for passage, about in others:
        if edits := tuple(_iter_edits(report, about)):
            yield EditedPart(passage=passage, edits=edits)


def _iter_stderr_context(report: Report) -> Iterator[PromptContext]:
    """Yield the end of the standard error of the first failed case, or nothing if it is empty."""
    results = report.get("runtime_results")
    cases = _get_objects(results, "cases") if isinstance(results, dict) else []
    failed = [case for case in cases if case.get("status") in {"failed", "error"}]
    stderr = str(failed[0].get("stderr") or "") if failed else ""
    if stderr.strip():
        title = f"end of the standard error of {failed[0].get('name')}"
        yield PromptContext(title=title, text=stderr[-MAX_STDERR_CHARS:])


def list_errors(report: Report) -> list[Mapping[str, object]]:
    """Return the report's findings with severity ``error``, which are the reason for the failure."""
    return [finding for finding in _get_objects(report, "findings") if finding.get("severity") == "error"]


def _iter_edits(report: Report, about: Callable[[Hint], bool]) -> Iterator[Edit]:
    for hint in _get_objects(report, "fix_hints"):
        edit = hint.get("edit")
        if isinstance(edit, dict) and about(hint):
            yield Edit(**edit)


def _get_objects(report: Report, name: str) -> list[Mapping[str, object]]:
    found = report.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def normalize_source(text: str, comment: str) -> bytes:
    """Return a source's words without layout and comment lines, for comparisons.

    `comment` is the prefix of comment lines.
    """
    lines = (" ".join(line.split()) for line in text.splitlines())
    kept = (line for line in lines if line and not line.startswith(comment))
    return "\n".join(kept).encode("utf-8", "surrogatepass")
