"""What the API needs of the daemon behind it: accept, wait, look, stop, follow, explain itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Protocol

from assayd.kind import Kind
from assayd.model.attempt import Attempt
from assayd.model.health import DaemonFacts, HealthRow
from assayd.model.records import Accepted, Event, Page, Query, Summary, Swept
from assayd.model.submission import Peer, Submission
from assayd.tomlfile import Problem


class Service(Protocol):
    """The daemon, as its API sees it.

    What a request is refused for is a RequestError; whose attempt it is, the API checks.
    """

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The validators that are enabled, by kind."""
        ...

    @property
    def records(self) -> Mapping[str, object]:
        """What kinds keep records in, by kind; the routes of each know theirs."""
        ...

    def ready(self) -> tuple[bool, str]:
        """Return whether attempts can be run, and why not."""
        ...

    async def require_ready(self) -> None:
        """See that attempts are taken and run. Raises: RequestError ``not_ready``."""
        ...

    async def submit(
        self,
        submission: Submission,
        *,
        peer: Peer,
        attempt_id: str | None = None,
        idempotency_key: str | None = None,
        max_runs: int | None = None,
    ) -> Accepted:
        """Accept a submission durably.

        Raises: RequestError ``queue.full`` or ``quota.full`` (retryable), ``policy.unknown``,
        ``policy.unenforceable``, ``override.wider``, ``conflict``, ``not_ready``.
        """
        ...

    async def wait(self, attempt_id: str, timeout_s: float) -> Attempt:
        """Return the attempt once it is finished, or its current state when the time is up."""
        ...

    async def get(self, attempt_id: str) -> Attempt | None:
        """Return an attempt by its id, or None."""
        ...

    async def list(self, query: Query) -> Page:
        """List attempts, newest first. Raises: RequestError ``invalid`` for a cursor that is not one."""
        ...

    async def summary(self, query: Query, bucket_s: int) -> Summary:
        """Count what finished attempts came to, by spans of so many seconds."""
        ...

    async def cancel(self, attempt_id: str) -> None:
        """Ask an attempt to end. Raises: RequestError ``attempt.finished``."""
        ...

    async def documents(self, attempt: Attempt) -> tuple[bytes, bytes]:
        """Return report and execution of a finished attempt as JSON text, as its bundle has them."""
        ...

    async def replay(self, attempt: Attempt, *, peer: Peer, idempotency_key: str | None = None) -> Attempt:
        """Accept the submission of a finished attempt once more.

        Raises: RequestError ``attempt.unfinished``, and what `submit` raises.
        """
        ...

    async def replay_diff(self, attempt: Attempt) -> Mapping[str, object] | None:
        """Return how a finished replay differs from what it repeats; None when that is gone."""
        ...

    def artifact(self, attempt: Attempt, name: str) -> AsyncIterator[bytes]:
        """Return one file of the bundle in pieces. Raises: StoreError ``artifact.missing``."""
        ...

    def bundle_path(self, attempt: Attempt) -> str | None:
        """Return the folder of an attempt's bundle on this machine; None without a bundle."""
        ...

    def bundle(self, attempt: Attempt) -> AsyncIterator[bytes]:
        """Return the whole bundle as a tar stream."""
        ...

    def events(self, attempt_id: str, *, after: str | None = None) -> AsyncGenerator[Event, None]:
        """Return the events of an attempt after the one with that id, up to ``finished``.

        The ids are those of `wire.event_id`. Closing the iterator gives up the subscription.
        """
        ...

    def all_events(
        self, uid: int | None, *, after: str | None = None
    ) -> AsyncGenerator[tuple[str, Event], None]:
        """Return the events of all attempts of a user (of everybody: None), each with its place there.

        `after` is such a place; events since then come first.
        """
        ...

    async def collect_garbage(self, *, dry_run: bool) -> Swept:
        """Remove attempts by age and size, or only report them."""
        ...

    def policies(self) -> Mapping[str, Mapping[str, object]]:
        """Describe the profiles, by name, with effective values."""
        ...

    def check_policy(
        self, name: str, content: bytes
    ) -> tuple[Mapping[str, object] | None, Sequence[Problem]]:
        """Return a profile's effective values, or its errors; nothing is loaded."""
        ...

    def facts(self) -> DaemonFacts:
        """Return who this daemon is and where its state lies."""
        ...

    def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        ...

    async def health(self) -> Sequence[HealthRow]:
        """Examine engine, images, isolation, limits and permissions."""
        ...
