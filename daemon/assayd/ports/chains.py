"""What the core asks of chains, which are a wing: repairs and generations (`assayd_chains`)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd.model.submission import RepairWish

PACKAGE = "assayd_chains"


def missing_chains() -> Mapping[str, str]:
    """Return the missing package by its purpose; nothing if it is installed."""
    return {} if find_spec(PACKAGE) is not None else {"repair and generation": PACKAGE}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFix:
    """The fix that an attempt runs: `number` counts within its repair, `hint` is a user's."""

    repair_id: str
    number: int
    provider: str
    passage: str
    reason: str
    hint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRepair:
    """The repair that a submission asked for: `attempt_id` is the fix that passed, if one did."""

    id: str
    ended: bool
    attempt_id: str | None


class RepairRequests(Protocol):
    """Records that submissions ask for their attempt to be repaired if it fails."""

    def check(self, wish: RepairWish) -> None:
        """Check that this can be done. Raises: RequestError ``repair.provider_unknown``."""
        ...

    async def record(self, attempt: Attempt, wish: RepairWish) -> None:
        """Have an attempt repaired if it fails. Asking twice is asking once."""
        ...


class Chains(Protocol):
    """The chains of a daemon, as far as the core knows of them."""

    @property
    def writers(self) -> Sequence[str]:
        """The providers that write from words."""
        ...

    async def fix_of(self, attempt_id: str) -> AttemptFix | None:
        """Return the fix that an attempt runs, if it runs one."""
        ...

    async def repair_of(self, attempt_id: str) -> AttemptRepair | None:
        """Return the first repair that an attempt began; None if there is none."""
        ...

    async def recover(self, only: Container[str] | None = None) -> None:
        """Go on with what a previous run has left; `only` chains with these ids, unless it is None."""
        ...

    def end(self, chain_id: str) -> bool:
        """End a chain that is carried out in this process; return whether it is."""
        ...


class NoChains:
    """Implements `Chains` and `RepairRequests` where the wing isn't installed."""

    writers: Sequence[str] = ()

    def check(self, wish: RepairWish) -> None:
        """Refuse. Raises: RequestError ``repair.provider_unknown``."""
        message = "this daemon doesn't support repairs: the package assayd_chains is missing"
        raise RequestError("repair.provider_unknown", message, field="repair.provider")

    async def record(self, attempt: Attempt, wish: RepairWish) -> None:
        """Refuse, as `check` does. Raises: RequestError."""
        self.check(wish)

    async def fix_of(self, attempt_id: str) -> AttemptFix | None:
        """Return None: no attempt runs a fix."""
        return None

    async def repair_of(self, attempt_id: str) -> AttemptRepair | None:
        """Return None: no attempt is repaired."""
        return None

    async def recover(self, only: Container[str] | None = None) -> None:
        """Do nothing: no chain is under way."""

    def end(self, chain_id: str) -> bool:
        """Return False: no chain is carried out here."""
        return False
