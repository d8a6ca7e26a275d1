"""What a repair needs of the rest of the daemon: attempts that it can follow, and a place to be kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from assayd.model.attempt import Attempt
from assayd.model.policy import ExecutionPolicy
from assayd.model.repair import Repair
from assayd.model.submission import Peer
from assayd.ports.llm import ProviderStep

Document = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A finished attempt with the submission that it was, and the report that it came to."""

    attempt: Attempt
    submission: Document
    report: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairTerms:
    """How somebody wants an attempt repaired.

    `code` is a person's, for the first fix; `fresh` goes back to what was submitted first. Without a
    provider it is `rules`, or with a hint the only one that reads it. `uid` is the user who asks.
    """

    provider: str | None = None
    max_attempts: int | None = None
    hint: str | None = None
    code: str | None = None
    fresh: bool = False
    uid: int | None = None


class Attempts(Protocol):
    """Attempts, as a repair sees them."""

    async def submit(self, attempt_id: str, submission: Document, *, parent: Attempt) -> None:
        """Submit in the name of the parent's peer; doing it again changes nothing.

        Raises: RequestError.
        """
        ...

    async def submit_new(self, attempt_id: str, submission: Document, *, peer: Peer) -> None:
        """Submit something of its own in the name of a peer; doing it again changes nothing.

        Raises: RequestError.
        """
        ...

    async def finished(self, attempt_id: str) -> Subject:
        """Wait until an attempt has its verdict. Raises: RequestError ``not_found``."""
        ...

    async def submission(self, attempt_id: str) -> Document | None:
        """Return what was submitted; None when nothing was yet, or it is not kept any more."""
        ...

    async def policy(self, submission: Document) -> ExecutionPolicy:
        """Return the effective policy of a submission. Raises: RequestError, e.g. ``policy.unknown``."""
        ...

    async def cancel(self, attempt_id: str) -> None:
        """Ask an attempt to end; one that has ended is left alone."""
        ...


class RepairStore(Protocol):
    """Where repairs are kept."""

    async def save(self, repair: Repair) -> None:
        """Record a repair as it is now, durably."""
        ...

    async def remove(self, repair_id: str) -> None:
        """Forget a repair that turned out not to be needed."""
        ...

    async def get(self, repair_id: str) -> Repair | None:
        """Return a repair by its id; None where there is none."""
        ...

    async def of_attempt(self, attempt_id: str) -> Sequence[Repair]:
        """Return the repairs that an attempt began or belongs to, oldest first."""
        ...

    async def list(
        self, *, uid: int | None = None, before: str | None = None, limit: int = 50
    ) -> Sequence[Repair]:
        """Return repairs, newest first; those of one user, and older than the one named `before`."""
        ...

    async def unfinished(self) -> Sequence[Repair]:
        """Return every repair without an outcome, oldest first."""
        ...

    async def save_step(self, repair_id: str, step: ProviderStep) -> None:
        """Record an answer whole, durably; one that is there already stays."""
        ...

    async def step(self, repair_id: str, number: int) -> ProviderStep | None:
        """Look an answer up."""
        ...


class Repairs(Protocol):
    """The repairs of a daemon, as its API sees them; whose they are, the API checks."""

    async def start(self, attempt: Attempt, request: RepairTerms) -> Repair:
        """Begin a repair of a finished attempt.

        Raises: RequestError ``repair.not_failed``, ``repair.running``,
        ``repair.provider_unknown``, ``repair.hint_unread``, ``repair.budget_spent``.
        """
        ...

    async def get(self, repair_id: str) -> Repair | None:
        """Return a repair by its id; None where there is none."""
        ...

    async def list(self, *, uid: int | None, before: str | None, limit: int) -> Sequence[Repair]:
        """List repairs, newest first."""
        ...

    async def of_attempt(self, attempt_id: str) -> Sequence[Repair]:
        """Return the repairs that an attempt began or belongs to."""
        ...

    async def diffs(self, repair: Repair) -> Sequence[str | None]:
        """Return what each fix changed; None for one that was not submitted, or is not kept any more."""
        ...

    async def step(self, repair: Repair, number: int) -> ProviderStep | None:
        """Return the prompt and the answer that a fix came of; None for one that a person gave."""
        ...

    async def cancel(self, repair: Repair) -> None:
        """End a repair, and the attempt that it has under way. Raises: RequestError ``repair.finished``."""
        ...

    async def accept_fallback(self, repair: Repair) -> Repair:
        """Take the rules that a repair offers; taking them again changes nothing.

        Raises: RequestError ``repair.no_fallback``.
        """
        ...

    def follow(self, repair_id: str) -> AsyncGenerator[Repair, None]:
        """Return a repair each time that it changes, up to its end."""
        ...
