"""The API's interfaces to the daemon and to chains and workflows, which wings implement."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Container, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

from assayd.errors import RequestError
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
from assayd.model.submission import Peer, RepairOptions, Submission
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
        """Return whether attempts can run, and the reason if they can't."""
        ...

    async def require_ready(self) -> None:
        """Check that the daemon can run attempts. Raises: RequestError ``not_ready``, if it can't."""
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
        """Accept a submission and store it durably. If it was accepted before, return its attempt.

        `from_gateway` is True if a node's worker submits it for a gateway.

        Raises: RequestError ``queue.full`` or ``quota.full`` (retryable), ``policy.unknown``,
        ``policy.unenforceable``, ``override.wider``, ``conflict``, ``not_ready``.
        """
        ...

    async def wait(self, attempt_id: str, timeout_s: float) -> Attempt:
        """Wait for an attempt's end until the timeout, and return the attempt in its current state.

        Raises: RequestError ``not_found``, if the attempt doesn't exist.
        """
        ...

    async def get(self, attempt_id: str) -> Attempt | None:
        """Return the attempt with this id, or None if it doesn't exist."""
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
        """Cancel an attempt. Raises: RequestError ``attempt.finished``, if it already has a verdict."""
        ...

    async def documents(self, attempt: Attempt) -> tuple[bytes, bytes]:
        """Return the report and execution record of a finished attempt, as the JSON texts in its bundle.

        Both are ``null`` if the bundle is gone.
        """
        ...

    async def replay(self, attempt: Attempt, *, peer: Peer, idempotency_key: str | None = None) -> Attempt:
        """Submit a finished attempt's submission again.

        Raises: RequestError ``attempt.unfinished``, if the attempt has no verdict, or an error of `submit`.
        """
        ...

    async def replay_diff(self, attempt: Attempt) -> Mapping[str, object] | None:
        """Return how a finished replay differs from its original, or None if the original was deleted."""
        ...

    def artifact(self, attempt: Attempt, name: str) -> AsyncIterator[bytes]:
        """Return one file of the bundle in pieces.

        Raises: RequestError ``not_found``, if the attempt has no bundle; StoreError ``artifact.missing``, if
        the file doesn't exist.
        """
        ...

    def bundle_path(self, attempt: Attempt) -> str | None:
        """Return the folder of an attempt's bundle on this machine, or None if there is none."""
        ...

    def bundle(self, attempt: Attempt) -> AsyncIterator[bytes]:
        """Return the whole bundle as a tar stream.

        Raises: RequestError ``not_found``, if the attempt has no bundle.
        """
        ...

    def events(self, attempt_id: str, *, after: str | None = None) -> AsyncGenerator[AttemptEvent, None]:
        """Yield the events of an attempt after the event id `after`, up to the event ``finished``.

        The ids have the format of `documents.format_event_id`. Closing the iterator ends the subscription.
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
        """Return the effective values of a profile, or None and its errors, without loading it."""
        ...

    def facts(self) -> DaemonFacts:
        """Return the daemon's identity and state folder."""
        ...

    def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        ...

    async def health(self) -> Sequence[HealthRow]:
        """Check the engine, images, isolation, limits and permissions, and return one row per check."""
        ...


PACKAGE = "assayd_chains"


def find_missing_chain_packages() -> Mapping[str, str]:
    """Return the missing chains package by its purpose. The result is empty if the package is installed."""
    return {} if find_spec(PACKAGE) is not None else {"repair and generation": PACKAGE}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFix:
    """The fix that an attempt runs. `number` is its number in the repair. `hint` is a user's hint."""

    repair_id: str
    number: int
    provider: str
    passage: str
    reason: str
    hint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRepair:
    """The repair requested with a submission. `attempt_id` is the successful fix, or None."""

    id: str
    ended: bool
    attempt_id: str | None


class RepairRequests(Protocol):
    """A recorder of requests to repair an attempt if the attempt fails."""

    def check(self, wish: RepairOptions) -> None:
        """Check that the requested repair is possible.

        Raises: RequestError ``repair.provider_unknown``, if the provider isn't configured.
        """
        ...

    async def record(self, attempt: Attempt, wish: RepairOptions) -> None:
        """Record a request to repair an attempt if the attempt fails. Repeated requests have no effect."""
        ...


class Chains(Protocol):
    """The core's interface to the chains of a daemon."""

    @property
    def writers(self) -> Sequence[str]:
        """Return the names of the providers that can generate submissions."""
        ...

    async def get_fix(self, attempt_id: str) -> AttemptFix | None:
        """Return the fix that an attempt runs, or None if it runs none."""
        ...

    async def repair_of(self, attempt_id: str) -> AttemptRepair | None:
        """Return the first repair that an attempt began, or None if it began none."""
        ...

    async def recover_unfinished(self, only: Container[str] | None = None) -> None:
        """Continue the unfinished chains of a previous run: all chains, or those with an id in `only`."""
        ...

    def end(self, chain_id: str) -> bool:
        """End a chain if this process drives it. Return False if another process drives the chain."""
        ...


class NullChains:
    """An implementation of `Chains` and `RepairRequests` that is used without their package."""

    writers: Sequence[str] = ()

    def check(self, wish: RepairOptions) -> None:
        """Reject the repair. Raises: RequestError ``repair.provider_unknown``, always."""
        message = "this daemon doesn't support repairs: the package assayd_chains is missing"
        raise RequestError("repair.provider_unknown", message, field="repair.provider")

    async def record(self, attempt: Attempt, wish: RepairOptions) -> None:
        """Reject the repair. Raises: the same errors as `check`."""
        self.check(wish)

    async def get_fix(self, attempt_id: str) -> AttemptFix | None:
        """Return None, because no attempt runs a fix."""
        return None

    async def repair_of(self, attempt_id: str) -> AttemptRepair | None:
        """Return None, because no attempt is repaired."""
        return None

    async def recover_unfinished(self, only: Container[str] | None = None) -> None:
        """Do nothing, because no chains exist."""

    def end(self, chain_id: str) -> bool:
        """Return False, because no chains exist."""
        return False


WORKFLOWS_PACKAGE = "assayd_workflows"


class Workflows(Protocol):
    """The core's interface to the workflows of a daemon."""

    async def recover_unfinished(self, only: Container[str] | None = None) -> None:
        """Continue the unfinished workflows of a previous run: all, or those with an id in `only`."""
        ...

    def end(self, workflow_id: str) -> bool:
        """End a workflow if this process drives it. Return False if another process drives the workflow."""
        ...


class NullWorkflows:
    """An implementation of `Workflows`, used if their package isn't installed."""

    async def recover_unfinished(self, only: Container[str] | None = None) -> None:
        """Do nothing, because no workflows exist."""

    def end(self, workflow_id: str) -> bool:
        """Return False, because no workflows exist."""
        return False


class WebhookGate(Protocol):
    """An interface that checks the webhook URLs in requests."""

    async def check(self, url: str, uid: int) -> None:
        """Check that messages for a user can be sent to a URL.

        Raises: RequestError ``webhook.invalid``, if the URL is malformed; ``webhook.not_allowed``, if no
        listed receiver has it; ``quota.webhooks`` (retryable), if too many messages are undelivered.
        """
        ...
