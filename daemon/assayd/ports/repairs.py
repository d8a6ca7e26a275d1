"""What a repair needs of the rest of the daemon: attempts that it can follow, and a place to be kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from assayd.model.attempt import Attempt
from assayd.model.repair import Repair

Document = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A finished attempt with the submission that it was, and the report that it came to."""

    attempt: Attempt
    submission: Document
    report: Document


class Attempts(Protocol):
    """Attempts, as a repair sees them."""

    async def submit(self, attempt_id: str, submission: Document, *, parent: Attempt, number: int) -> None:
        """Submit in the name of whoever submitted the parent; doing it again changes nothing.

        Raises: RequestError.
        """
        ...

    async def finished(self, attempt_id: str) -> Subject:
        """Wait until an attempt has its verdict. Raises: RequestError ``not_found``."""
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
        """Look a repair up."""
        ...

    async def of_attempt(self, attempt_id: str) -> Sequence[Repair]:
        """Give the repairs that an attempt began or belongs to, oldest first."""
        ...

    async def list(
        self, *, uid: int | None = None, before: str | None = None, limit: int = 50
    ) -> Sequence[Repair]:
        """Give repairs, newest first; those of one user, and older than the one named `before`."""
        ...

    async def unfinished(self) -> Sequence[Repair]:
        """Give every repair without an outcome, oldest first."""
        ...
