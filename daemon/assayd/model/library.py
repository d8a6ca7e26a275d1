"""The library: validated submissions that users approved under a name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryEntry:
    """A validated submission that somebody approved under a name. Versions count from 1, per user and name.

    `chain` names the attempts that led to it, oldest first; `document` is the submission as it was accepted,
    and an empty object where it was not asked for.
    """

    uid: int
    name: str
    version: int
    kind: str
    attempt_id: str
    digest: str
    intent: str | None
    chain: tuple[str, ...]
    approved_by: int
    approved_at: datetime
    bundle: str | None
    document: bytes = b"{}"
