"""The library: validated submissions that users approved with a name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryEntry:
    """A validated submission that a user approved with a name. Versions start at 1 per user and name.

    `chain` lists, in chronological order, the attempts that led to the submission. `document` is the
    accepted submission, or an empty object if the document wasn't requested.
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
