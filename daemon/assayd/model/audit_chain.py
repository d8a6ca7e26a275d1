"""The chain of an audit log's lines: each holds the SHA-256 of the line before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass


class AuditError(ValueError):
    """The chain is broken; the message says at which line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The verified chain: its number of lines, and the times of the first and last line."""

    lines: int
    first_at: str | None
    last_at: str | None


def verify(lines: Iterable[bytes]) -> Chain:
    """Follow the chain from its first line. Raises: AuditError, at the first line that doesn't fit."""
    count, expected = 0, None
    first = last = None
    for count, line in enumerate(lines, start=1):
        text = line.rstrip(b"\n")
        entry = _entry(text)
        if entry is None:  # cut by a loss of power: the next line has to fit it
            expected = line_digest(text)
            continue
        if expected is not None and entry.get("previous") != expected:
            raise AuditError(f"line {count} doesn't follow line {count - 1}: a line was changed or removed")
        expected = line_digest(text)
        last = str(entry.get("at"))
        first = first or last
    return Chain(lines=count, first_at=first, last_at=last)


def line_digest(line: bytes) -> str:
    """Return the digest by which the next line refers to this one."""
    return hashlib.sha256(line).hexdigest()


def _entry(line: bytes) -> dict[str, object] | None:
    with suppress(ValueError):
        entry = json.loads(line)
        if isinstance(entry, dict):
            return entry
    return None


def previous_of(line: bytes) -> object:
    """Return the digest by which a line refers to the one before it; None for one that was cut."""
    return (_entry(line) or {}).get("previous")


def written_at(line: bytes) -> str:
    """Return when a line was written; empty for one that was cut."""
    return str((_entry(line) or {}).get("at", ""))
