"""The API's interface to the daemon."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Protocol

from assayd.kind import Kind
from assayd.model.attempt import Attempt
from assayd.model.health import DaemonFacts, HealthRow
from assayd.model.records import (
    AcceptedSubmission,
    AttemptEvent,
    AttemptPage,
    AttemptQuery,
    Summary,
    SweepResult,
)
from assayd.model.submission import Peer, Submission
from assayd.tomlfile import Problem


class Service(Protocol):
    """The daemon's interface for its API.

    A rejected request raises RequestError. The API, not this interface, checks the owner of an attempt.
    """

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Return the enabled validators, by kind."""
        ...

    @property
    def records(self) -> Mapping[str, object]:
        """Return the record store of each kind, for the kind's own routes."""
        ...

    def ready(self) -> tuple[bool, str]:
        """Return whether attempts can run and, if not, the reason."""
        ...

    async def require_ready(self) -> None:
        """Check that the daemon can run attempts. Raises: RequestError ``not_ready``."""
        ...

    async def submit(
        self,
        submission: Submission,
        *,
        peer: Peer,
        attempt_id: str | None = None,
        idempotency_key: str | None = None,
        max_runs: int | None = None,
        from_gateway: bool = False,
    ) -> AcceptedSubmission:
        """Accept a submission and store it durably.

        `from_gateway`: whether a node's worker submits it for a gateway.

        Raises: RequestError ``queue.full`` or ``quota.full`` (retryable), ``policy.unknown``,
        ``policy.unenforceable``, ``override.wider``, ``conflict``, ``not_ready``.
        """
        ...

    async def wait(self, attempt_id: str, timeout_s: float) -> Attempt:
        """Wait for an attempt's end until the timeout; return the attempt in its current state."""
        ...

    async def get(self, attempt_id: str) -> Attempt | None:
        """Return the attempt with this id, or None."""
        ...

    async def list(self, query: AttemptQuery) -> AttemptPage:
        """Return a page of attempts in descending order of time.

        Raises: RequestError ``invalid`` for a malformed cursor.
        """
        ...

    async def summary(self, query: AttemptQuery, bucket_s: int) -> Summary:
        """Count the finished attempts by result, in time buckets of `bucket_s` seconds."""
        ...

    async def cancel(self, attempt_id: str) -> None:
        """Cancel an attempt. Raises: RequestError ``attempt.finished``."""
        ...

    async def documents(self, attempt: Attempt) -> tuple[bytes, bytes]:
        """Return the report and execution record of a finished attempt, as the JSON texts in its bundle."""
        ...

    async def replay(self, attempt: Attempt, *, peer: Peer, idempotency_key: str | None = None) -> Attempt:
        """Submit a finished attempt's submission again.

        Raises: RequestError ``attempt.unfinished``, or an error of `submit`.
        """
        ...

    async def replay_diff(self, attempt: Attempt) -> Mapping[str, object] | None:
        """Return how a finished replay differs from its original, or None if the original was deleted."""
        ...

    def artifact(self, attempt: Attempt, name: str) -> AsyncIterator[bytes]:
        """Return one file of the bundle in pieces. Raises: StoreError ``artifact.missing``."""
        ...

    def bundle_path(self, attempt: Attempt) -> str | None:
        """Return the folder of an attempt's bundle on this machine, or None if there is none."""
        ...

    def bundle(self, attempt: Attempt) -> AsyncIterator[bytes]:
        """Return the whole bundle as a tar stream."""
        ...

    def events(self, attempt_id: str, *, after: str | None = None) -> AsyncGenerator[AttemptEvent, None]:
        """Yield the events of an attempt after the event id `after`, up to the event ``finished``.

        The ids have the format of `wire.event_id`. Closing the iterator ends the subscription.
        """
        ...

    def all_events(
        self, uid: int | None, *, after: str | None = None
    ) -> AsyncGenerator[tuple[str, AttemptEvent], None]:
        """Yield the events of all attempts of a user (None for all users), each with its cursor.

        The recorded events after the cursor `after` are returned first, followed by new events.
        """
        ...

    async def collect_garbage(self, *, dry_run: bool) -> SweepResult:
        """Delete attempts by age and size, or only report the attempts to be deleted."""
        ...

    def policies(self) -> Mapping[str, Mapping[str, object]]:
        """Return the effective values of the profiles, by name."""
        ...

    def check_policy(
        self, name: str, content: bytes
    ) -> tuple[Mapping[str, object] | None, Sequence[Problem]]:
        """Return the effective values or the errors of a profile, without loading it."""
        ...

    def facts(self) -> DaemonFacts:
        """Return the daemon's identity and state folder."""
        ...

    def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        ...

    async def health(self) -> Sequence[HealthRow]:
        """Check the engine, images, isolation, limits and permissions; return one row per check."""
        ...
