"""The records of attempts and approved submissions, and queries for attempts with their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from assayd.model.attempt import Attempt, State
from assayd.model.report import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRun:
    """One run of an attempt in one container, recorded before submitted code is sent to the container."""

    attempt_id: str
    kind: str
    run_number: int
    daemon_id: str
    generation: str
    container_ulid: str
    leased_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent:
    """A change of an attempt. `seq` starts at 1 for each attempt and continues across its runs."""

    attempt_id: str
    run_number: int
    seq: int
    kind: str
    at: datetime
    body: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptQuery:
    """The filters of an attempt listing; None matches any value. `uid` selects the attempts of one user."""

    id_prefix: str | None = None
    state: State | None = None
    verdict: Verdict | None = None
    kind: str | None = None
    batch_id: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    since: datetime | None = None
    cause: str | None = None
    rule: str | None = None
    uid: int | None = None
    node: str | None = None
    distrusted: bool | None = None
    cursor: str | None = None
    limit: int = 50

    def matches(self, attempt: Attempt) -> bool:
        """Return whether an attempt matches the filters, regardless of the page."""
        wanted = {
            "state": self.state,
            "verdict": self.verdict,
            "kind": self.kind,
            "batch_id": self.batch_id,
            "cause": self.cause,
            "node": self.node,
        }
        return (
            all(value is None or getattr(attempt, name) == value for name, value in wanted.items())
            and all(attempt.labels.get(name) == value for name, value in self.labels)
            and attempt.id.startswith(self.id_prefix or "")
            and self.distrusted in {None, attempt.distrusted_at is not None}
            and (self.since is None or attempt.created_at >= self.since)
            and (self.rule is None or self.rule in attempt.rules)
            and (self.uid is None or attempt.peer.uid == self.uid)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPage:
    """A page of attempts in descending order of time, with the cursor of the next page."""

    attempts: tuple[Attempt, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptCount:
    """The number of attempts per combination of kind, time bucket, verdict and cause."""

    at: datetime
    kind: str
    verdict: str
    cause: str | None
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowAttempt:
    """A slow attempt, with the time from its start to its verdict."""

    attempt_id: str
    kind: str
    verdict: str
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Counts of finished attempts. `rules` are the most frequent rules with their numbers of attempts."""

    counts: tuple[AttemptCount, ...]
    rules: tuple[tuple[str, int], ...]
    slowest: tuple[SlowAttempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedSubmission:
    """The result of accepting a submission. `existing` is true if an equal request was accepted earlier."""

    attempt: Attempt
    existing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The number and disk space of the objects that garbage collection removed or would remove."""

    attempts: int = 0
    bundles: int = 0
    disk_bytes: int = 0


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
