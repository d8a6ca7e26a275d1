"""The core's interfaces to repairs, generations and workflows, which wings implement, and to webhooks."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd.model.submission import RepairOptions

PACKAGE = "assayd_chains"


def missing_chain_packages() -> Mapping[str, str]:
    """Return the missing package, keyed by its purpose; empty if the package is installed."""
    return {} if find_spec(PACKAGE) is not None else {"repair and generation": PACKAGE}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFix:
    """The fix that an attempt runs. `number` is its number in the repair; `hint` is a user's hint."""

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
        """Check that the requested repair is possible. Raises: RequestError ``repair.provider_unknown``."""
        ...

    async def record(self, attempt: Attempt, wish: RepairOptions) -> None:
        """Record a request to repair an attempt if the attempt fails. Repeated requests have no effect."""
        ...


class Chains(Protocol):
    """The chains of a daemon, as far as the core uses them."""

    @property
    def writers(self) -> Sequence[str]:
        """Return the names of the providers that can generate submissions."""
        ...

    async def get_fix(self, attempt_id: str) -> AttemptFix | None:
        """Return the fix that an attempt runs, or None."""
        ...

    async def repair_of(self, attempt_id: str) -> AttemptRepair | None:
        """Return the first repair that an attempt began, or None."""
        ...

    async def recover_chains(self, only: Container[str] | None = None) -> None:
        """Continue the unfinished chains of a previous run: all chains, or those with an id in `only`."""
        ...

    def end(self, chain_id: str) -> bool:
        """End a chain if this process drives it; return whether this process drives it."""
        ...


class NoChains:
    """An implementation of `Chains` and `RepairRequests` that is used without their package."""

    writers: Sequence[str] = ()

    def check(self, wish: RepairOptions) -> None:
        """Reject the repair. Raises: RequestError ``repair.provider_unknown``."""
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

    async def recover_chains(self, only: Container[str] | None = None) -> None:
        """Do nothing, because no chains exist."""

    def end(self, chain_id: str) -> bool:
        """Return False, because no chains exist."""
        return False


WORKFLOWS_PACKAGE = "assayd_workflows"


class Workflows(Protocol):
    """The workflows of a daemon, as far as the core uses them."""

    async def recover_chains(self, only: Container[str] | None = None) -> None:
        """Continue the unfinished workflows of a previous run: all, or those with an id in `only`."""
        ...

    def end(self, workflow_id: str) -> bool:
        """End a workflow if this process drives it; return whether this process drives it."""
        ...


class NoWorkflows:
    """An implementation of `Workflows`, used if their package isn't installed."""

    async def recover_chains(self, only: Container[str] | None = None) -> None:
        """Do nothing, because no workflows exist."""

    def end(self, workflow_id: str) -> bool:
        """Return False, because no workflows exist."""
        return False


class WebhookGate(Protocol):
    """A checker of webhook URLs."""

    async def check(self, url: str, uid: int) -> None:
        """Check that messages for a user can be sent to a URL.

        Raises: RequestError ``webhook.invalid``, ``webhook.not_allowed``, ``quota.webhooks`` (retryable).
        """
        ...
