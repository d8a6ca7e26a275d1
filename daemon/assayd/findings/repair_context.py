"""What kinds share when they say what is to be fixed. Reads reports in their wire form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from assayd.findings.retry_context import without_reminders
from assayd.model.finding import Edit
from assayd.model.prompting import EditedPassage, Passage, RepairContext, Surrounding, Worth

STDERR_CHARS = 4000
"""Of what the failed case wrote on standard error: the end."""

_APPROACH = re.compile(
    r"(case|result|quality|collect)\.|tests\.failed|\w+\.(timeout|out_of_\w+|data_validation)$"
)
"""Rules of a wrong result, and of a limit."""

Report = Mapping[str, object]
Hint = Mapping[str, object]


def context_of(  # noqa: PLR0913  (each says another thing of the request)
    passage: Passage,
    report: Report,
    *,
    instructions: Sequence[str],
    runtime_stages: Sequence[str],
    surroundings: Sequence[Surrounding] = (),
    about: Callable[[Hint], bool] = lambda _: True,
    others: Sequence[tuple[Passage, Callable[[Hint], bool]]] = (),
    title: str = "",
    other_forms: Sequence[str] = (),
) -> RepairContext:
    """Ask for a passage again, with what its report says.

    `about` tells which hints are about the passage: their edits are its own; `others` are further passages
    with the same.
    """
    return RepairContext(
        passage=passage,
        failure=without_reminders(str(report.get("retry_context") or "It was refused.")),
        instructions=tuple(instructions),
        surroundings=(*_said(report), *surroundings),
        worth=_worth(report, runtime_stages),
        edits=tuple(_edits(report, about)),
        others=tuple(_edited(report, others)),
        title=title,
        other_forms=tuple(other_forms),
    )


def _worth(report: Report, runtime_stages: Sequence[str]) -> Worth:
    """Return MEDIUM for a wrong result or a limit that was met; other failures are local faults."""
    rules = [str(finding.get("rule")) for finding in errors_of(report)]
    ran = report.get("stage_reached") in runtime_stages
    return Worth.MEDIUM if ran and any(map(_APPROACH.match, rules)) else Worth.HIGH


def _edited(
    report: Report, others: Sequence[tuple[Passage, Callable[[Hint], bool]]]
) -> Iterator[EditedPassage]:
    """Return those passages that a hint has an edit for."""
    for passage, about in others:
        if edits := tuple(_edits(report, about)):
            yield EditedPassage(passage=passage, edits=edits)


def _said(report: Report) -> Iterator[Surrounding]:
    """Return the end of what the first case that failed wrote on its standard error."""
    results = report.get("runtime_results")
    cases = _objects(results, "cases") if isinstance(results, dict) else []
    failed = [case for case in cases if case.get("status") in {"failed", "error"}]
    stderr = str(failed[0].get("stderr") or "") if failed else ""
    if stderr.strip():
        title = f"end of the standard error of {failed[0].get('name')}"
        yield Surrounding(title=title, text=stderr[-STDERR_CHARS:])


def errors_of(report: Report) -> list[Mapping[str, object]]:
    """Return the findings that failed the submission."""
    return [finding for finding in _objects(report, "findings") if finding.get("severity") == "error"]


def _edits(report: Report, about: Callable[[Hint], bool]) -> Iterator[Edit]:
    for hint in _objects(report, "fix_hints"):
        edit = hint.get("edit")
        if isinstance(edit, dict) and about(hint):
            yield Edit(**edit)


def _objects(report: Report, name: str) -> list[Mapping[str, object]]:
    found = report.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def without_layout(text: str, comment: str) -> bytes:
    """Return the words of a text, without whole-line comments: what stays when its layout changes."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    kept = (line for line in lines if line and not line.startswith(comment))
    return "\n".join(kept).encode("utf-8", "surrogatepass")
