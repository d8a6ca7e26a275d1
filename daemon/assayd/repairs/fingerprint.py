"""Recognises a failure that comes back: same rules, at the same places, with messages of the same shape.

Reads a report in its wire form. Lines do not count, since every fix moves them; what varies from run to run
(numbers, addresses, quoted text, paths) is blanked.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence

FIRST = 5
"""So many findings make a failure; more would tell it by its aftermath."""

_BLANKED = (
    (re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`"), "…"),
    (re.compile(r"(?<![\w.])(?:\.{0,2}/)[^\s:,;]+"), "/"),
    (re.compile(r"0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?"), "0"),
    (re.compile(r"\s+"), " "),
)


def fingerprint(report: Mapping[str, object]) -> str:
    """Return the SHA-256 of what a failed report is recognised by."""
    parts = "\n".join("\t".join(part) for part in _parts(report))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


def shape(message: str) -> str:
    """Return a message without what varies: ``line 12: 'Q1' is bad`` -> ``line 0: … is bad``."""
    for pattern, blank in _BLANKED:
        message = pattern.sub(blank, message)
    return message.strip()


def _parts(report: Mapping[str, object]) -> Iterator[tuple[str, ...]]:
    yield ("stage", str(report.get("stage_reached")))
    errors = [f for f in _dicts(report.get("findings")) if f.get("severity") == "error"]
    for finding in errors[:FIRST]:
        yield ("finding", str(finding.get("rule")), shape(str(finding.get("message"))))
    runtime = report.get("runtime_results")
    cases = _dicts(runtime.get("cases")) if isinstance(runtime, dict) else []
    for case in [case for case in cases if case.get("status") in {"failed", "error"}][:FIRST]:
        yield ("case", str(case.get("name")), str(case.get("error_type")))


def _dicts(value: object) -> Sequence[Mapping[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
