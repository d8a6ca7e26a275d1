"""Words the findings of a failed stage for a model that tries again.

Decides form and size only: a headline, the first findings in full, how many more there are, and what to
keep in mind. Source: seed 000, sections 3.3 and 6.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assayd.model.finding import Finding, Severity
from assayd.model.text_limits import RETRY_CONTEXT_BYTES, RETRY_FINDINGS, shorten

_FIELD_CHARS = 1500


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
    place = ", ".join(part for part in parts if part is not None)
    yield f"{number}. {place}{': ' * bool(place)}{shorten(finding.message, _FIELD_CHARS)} [{finding.rule}]"
    if finding.snippet:
        yield f"   Code: {finding.snippet.strip()}"
    if finding.context:
        yield f"   Seen: {shorten(finding.context, _FIELD_CHARS)}"
    if finding.suggestion:
        yield f"   Fix: {shorten(finding.suggestion, _FIELD_CHARS)}"


def _cut(text: str) -> str:
    encoded = text.encode("utf-8")
    if len(encoded) <= RETRY_CONTEXT_BYTES:
        return text
    return encoded[: RETRY_CONTEXT_BYTES - 4].decode("utf-8", "ignore") + "…\n"
