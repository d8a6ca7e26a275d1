"""Words the findings of a failed stage for a model that tries again.

Decides form and size only: a headline, the first findings in full, how many more there are, and what to
keep in mind. What a guest may have worded stands in quotation marks, each field on one line.
Source: seed 000, sections 3.3 and 6.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assayd.model.finding import Finding, Layer, Severity
from assayd.model.text_limits import RETRY_CONTEXT_BYTES, RETRY_FINDINGS, shorten

_FIELD_CHARS = 1500
_QUOTES = "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"
_NO_QUOTES = str.maketrans(dict.fromkeys(_QUOTES, '"'))


def retry_context(findings: Sequence[Finding], *, headline: str, reminders: Sequence[str] = ()) -> str:
    """Return the text for another try: errors in order, or warnings when there is no error."""
    told = [f for f in findings if f.is_error] or [f for f in findings if f.severity is Severity.WARNING]
    lines = [headline, ""]
    for number, finding in enumerate(told[:RETRY_FINDINGS], 1):
        lines.extend(_describe(number, finding))
    more = len(told) - RETRY_FINDINGS
    if more > 0:
        lines.append(f"… and {more} more.")
    if reminders:
        lines.extend(("", "Keep in mind:", *(f"- {reminder}" for reminder in reminders)))
    return _cut("\n".join(lines).rstrip() + "\n")


def _describe(number: int, finding: Finding) -> Iterator[str]:
    parts = (finding.file, None if finding.line is None else f"line {finding.line}")
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
    seen = "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)
    return shorten(" ".join(seen.split()), _FIELD_CHARS)


def _cut(text: str) -> str:
    encoded = text.encode("utf-8")
    if len(encoded) <= RETRY_CONTEXT_BYTES:
        return text
    return encoded[: RETRY_CONTEXT_BYTES - 4].decode("utf-8", "ignore") + "…\n"
