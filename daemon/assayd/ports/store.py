"""Where attempts live: durable at accept, at lease, and at the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from assayd.model.attempt import Attempt, State
from assayd.model.report import Case, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of an attempt in one container, journalled before anything submitted is sent to it."""

    attempt_id: str
    kind: str
    run_number: int
    daemon_id: str
    generation: str
    container_ulid: str
    leased_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to an attempt. `seq` counts per attempt, from 1, across its runs."""

    attempt_id: str
    run_number: int
    seq: int
    kind: str
    at: datetime
    body: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which attempts a listing wants; None = any. `uid` limits it to a peer's own."""

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
    cursor: str | None = None
    limit: int = 50

    def matches(self, attempt: Attempt) -> bool:
        """Return whether an attempt is wanted, wherever the page begins."""
        wanted = {
            "state": self.state,
            "verdict": self.verdict,
            "kind": self.kind,
            "batch_id": self.batch_id,
            "cause": self.cause,
        }
        return (
            all(value is None or getattr(attempt, name) == value for name, value in wanted.items())
            and all(attempt.labels.get(name) == value for name, value in self.labels)
            and attempt.id.startswith(self.id_prefix or "")
            and (self.since is None or attempt.created_at >= self.since)
            and (self.rule is None or self.rule in attempt.rules)
            and (self.uid is None or attempt.peer.uid == self.uid)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Attempts, newest first, and where the next page begins."""

    attempts: tuple[Attempt, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeCount:
    """How many attempts of a kind that were created in a span of time came to a verdict and a cause."""

    at: datetime
    kind: str
    verdict: str
    cause: str | None
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowest:
    """An attempt that took long, from its start to its verdict."""

    attempt_id: str
    kind: str
    verdict: str
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What finished attempts came to. `rules` are those of the most attempts, with how many each has."""

    counts: tuple[TimeCount, ...]
    rules: tuple[tuple[str, int], ...]
    slowest: tuple[Slowest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What an accept came to. `existing` is True when the same request was accepted before."""

    attempt: Attempt
    existing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUsage:
    """What a user holds: finished attempts, what their bundles and rows take on disk, and what waits.

    `document_bytes` are of submissions without a verdict, lines of cancelled batches included; what is equal
    counts once. `row_bytes` are of finished attempts: their submissions, and about what is on record of them.
    """

    attempts: int = 0
    disk_bytes: int = 0
    row_bytes: int = 0
    document_bytes: int = 0

    @property
    def held_bytes(self) -> int:
        """Return what finished attempts take: bundles and rows."""
        return self.disk_bytes + self.row_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Removable:
    """Which finished attempts may go. None: whenever accepted, whoever sent them.

    `uploads` are batches that somebody is sending to. `bundled`: those with a bundle, also when an unfinished
    batch needs their verdict. `approved`: those that the library has, and no others.
    """

    before: datetime | None = None
    uid: int | None = None
    uploads: frozenset[str] = frozenset()
    bundled: bool = False
    approved: bool = False
    limit: int = 100
    offset: int = 0


class JobStore(Protocol):
    """Attempts, runs, verdicts and events. Raises StoreError; each write is one transaction."""

    async def accept(
        self, attempt: Attempt, document: bytes, *, idempotency_key: str | None = None
    ) -> Accepted:
        """Record a new attempt with its submission, durably.

        The same id, or the same key from the same uid, with an equal submission gives the attempt
        that was recorded first. Raises: RequestError ``conflict`` when the submission differs, or the id is
        another user's.
        """
        ...

    async def lease(self, run: Run) -> None:
        """Record which container a run gets, durably, before anything submitted is sent to it."""
        ...

    async def withdraw(self, attempt_id: str, run_number: int) -> None:
        """Forget a run that an orderly stop of the daemon broke off; its container must be gone."""
        ...

    async def finish(
        self,
        attempt: Attempt,
        events: Sequence[Event] = (),
        cases: Sequence[Case] = (),
        *,
        held_by: str | None = None,
    ) -> bool:
        """Record the verdict, durably: insert or nothing. False when one is there already.

        `cases` are what was run, for kinds that keep records of them. `held_by` is who brings it, where its
        run, leased when the attempt was started, has to be in their hands still.

        Raises: RequestError ``run.foreign``, when it is not.
        """
        ...

    async def get(self, attempt_id: str) -> Attempt | None:
        """Return an attempt by its id; None where there is none."""
        ...

    async def many(self, attempt_ids: Iterable[str]) -> Mapping[str, Attempt]:
        """Look attempts up, by id; those that are not there are left out."""
        ...

    async def by_key(self, uid: int, idempotency_key: str) -> Attempt | None:
        """Return the attempt that a user has made with a key; None where there is none."""
        ...

    async def document(self, attempt_id: str) -> bytes:
        """Return the submission as it was accepted (canonical JSON).

        Raises: StoreError ``attempt.missing``.
        """
        ...

    async def list(self, query: Query) -> Page:
        """List attempts, newest first. Raises: RequestError ``invalid`` for a cursor that is not one.

        States between queued and finished are not on record: a query for any of them gives all that
        are unfinished.
        """
        ...

    async def summary(self, query: Query, bucket_s: int) -> Summary:
        """Count what finished attempts came to, by spans of so many seconds, whatever the page."""
        ...

    async def events(self, attempt_id: str, *, after: int = 0) -> Sequence[Event]:
        """Return the recorded events after the one with that sequence number, in order."""
        ...

    async def unfinished(self) -> Sequence[Attempt]:
        """Return every attempt without a verdict, with `run_number` = runs leased so far."""
        ...

    async def removable(self, wanted: Removable) -> Sequence[Attempt]:
        """Return finished attempts that nothing unfinished needs, oldest first."""
        ...

    async def remove(self, attempt_ids: Sequence[str], *, unless: frozenset[str] = frozenset()) -> None:
        """Forget attempts with all that is on record of them; their bundles are the caller's.

        Args:
            attempt_ids: which.
            unless: batches whose attempts stay.
        """
        ...

    async def row_bytes(self, attempt_ids: Sequence[str]) -> Mapping[str, int]:
        """Return about what is on record of attempts, their submissions included, by id."""
        ...

    async def strip(self, attempt_ids: Sequence[str]) -> None:
        """Record that the bundles of attempts are gone; their verdicts stay."""
        ...

    async def usage(self) -> Mapping[int, StoredUsage]:
        """Return what each user holds, by uid."""
        ...
