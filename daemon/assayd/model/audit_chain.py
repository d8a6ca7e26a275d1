"""The digest chain of an audit log: each line contains the SHA-256 of the previous line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass


class AuditError(ValueError):
    """An exception raised for an inconsistent chain. Its message contains the line number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditChain:
    """A verified chain: its number of lines, and the times of its first and last lines."""

    lines: int
    first_at: str | None
    last_at: str | None


def verify_chain(lines: Iterable[bytes]) -> AuditChain:
    """Verify the whole chain. Raises: AuditError for the first inconsistent line."""
    count, expected = 0, None
    first = last = None
    for count, line in enumerate(lines, start=1):
        text = line.rstrip(b"\n")
        entry = _parse_entry(text)
        if entry is None:  # A power failure can truncate a line; the next line's digest must still match it.
            expected = compute_line_digest(text)
            continue
        if expected is not None and entry.get("previous") != expected:
            raise AuditError(f"line {count} doesn't follow line {count - 1}: a line was changed or removed")
        expected = compute_line_digest(text)
        last = str(entry.get("at"))
        first = first or last
    return AuditChain(lines=count, first_at=first, last_at=last)


def compute_line_digest(line: bytes) -> str:
    """Return the digest of a line, by which the next line refers to it."""
    return hashlib.sha256(line).hexdigest()


def _parse_entry(line: bytes) -> dict[str, object] | None:
    with suppress(ValueError):
        entry = json.loads(line)
        if isinstance(entry, dict):
            return entry
    return None


def read_previous_digest(line: bytes) -> object:
    """Return the digest of the previous line that a line contains, or None if it contains none."""
    return (_parse_entry(line) or {}).get("previous")


def read_timestamp(line: bytes) -> str:
    """Return the time of a line as a string, or "" for a truncated line."""
    return str((_parse_entry(line) or {}).get("at", ""))
