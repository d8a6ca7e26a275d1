"""Words the findings of a failed stage for a model that tries again.

Decides form and size only: a headline, all findings, those that say the same in one with their lines, how
many more there are beyond twenty, and what to keep in mind. What a guest may have worded stands in quotation
marks, each field on one line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assayd.model.finding import Finding, Layer, Severity
from assayd.model.text_limits import RETRY_CONTEXT_BYTES, RETRY_FINDINGS, shorten

_FIELD_CHARS = 1500
_QUOTES = "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"
_NO_QUOTES = str.maketrans(dict.fromkeys(_QUOTES, '"'))
_MOST_LINES = 20
_REMINDERS = "\n\nKeep in mind:\n"


def retry_context(findings: Sequence[Finding], *, headline: str, reminders: Sequence[str] = ()) -> str:
    """Return the text for another try: errors in order, or warnings when there is no error."""
    told = [f for f in findings if f.is_error] or [f for f in findings if f.severity is Severity.WARNING]
    lines = [headline, ""]
    groups = _grouped(told)
    for number, group in enumerate(groups[:RETRY_FINDINGS], 1):
        lines.extend(_describe(number, group))
    more = len(groups) - RETRY_FINDINGS
    if more > 0:
        lines.append(f"… and {more} more.")
    if reminders:
        lines[-1] += _REMINDERS + "\n".join(f"- {reminder}" for reminder in reminders)
    return _cut("\n".join(lines).rstrip() + "\n")


def without_reminders(text: str) -> str:
    """Return a retry context without its reminders, which a prompt states in our own voice.

    No finding can hold the line that begins them: each of its fields is one line behind words of ours.
    """
    return text.partition(_REMINDERS)[0]


def _grouped(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Put those together that say the same of several lines."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for f in findings:
        key = (f.file, f.rule, f.message, f.suggestion, f.context, id(f) if f.line is None else None)
        groups.setdefault(key, []).append(f)
    return list(groups.values())


def _lines(group: Sequence[Finding]) -> str | None:
    lines = sorted({f.line for f in group if f.line is not None})
    if len(lines) < 2:
        return f"line {lines[0]}" if lines else None
    shown = ", ".join(map(str, lines[:_MOST_LINES]))
    more = len(lines) - _MOST_LINES
    return f"lines {shown}" + (f" and {more} more" if more > 0 else "")


def _describe(number: int, group: Sequence[Finding]) -> Iterator[str]:
    finding = group[0]
    parts = (finding.file, _lines(group))
    place = _line(", ".join(part for part in parts if part is not None))
    message = _said(finding.message) if finding.layer is Layer.RUNTIME else _line(finding.message)
    yield f"{number}. {place}{': ' * bool(place)}{message} [{finding.rule}]"
    if finding.snippet:
        yield f"   Code: {_line(finding.snippet)}"
    if finding.context:
        yield f"   Seen: {_said(finding.context)}"
    if finding.suggestion:
        yield f"   Fix: {_line(finding.suggestion)}"


def _said(text: str) -> str:
    """Return what a guest may have worded, in quotation marks that it cannot contain."""
    return _QUOTES[0] + _line(text).translate(_NO_QUOTES) + _QUOTES[1]


def _line(text: str) -> str:
    """Return a text on one line, without what is not seen: nobody else than we begins a line here."""
    seen = text
    if not text.isprintable():
        seen = "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)
    return shorten(" ".join(seen.split()), _FIELD_CHARS)


def _cut(text: str) -> str:
    encoded = text.encode("utf-8")
    if len(encoded) <= RETRY_CONTEXT_BYTES:
        return text
    return encoded[: RETRY_CONTEXT_BYTES - 4].decode("utf-8", "ignore") + "…\n"
