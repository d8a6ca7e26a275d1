"""Repairs that are asked for: checked before anything is accepted, on record before they begin.

What carries them out (`repairs.repairs`) needs attempts, and what admits attempts needs this; so this knows
neither, and hands over what it has recorded by a queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta

from assayd.errors import RequestError
from assayd.model.attempt import Attempt
from assayd.model.repair import Repair
from assayd.model.submission import RepairWish
from assayd.ports.clock import Clock, Ids
from assayd.ports.repairs import RepairStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequests:
    """Implements `attempts.admission.RepairRequests`. `recorded` holds repairs that are to be carried out."""

    store: RepairStore
    providers: Collection[str]
    clock: Clock
    ids: Ids
    timeout: timedelta = timedelta(minutes=5)
    max_attempts: int = 3
    recorded: asyncio.Queue[Repair] = field(default_factory=asyncio.Queue)

    def check(self, wish: RepairWish) -> None:
        """See that the provider exists.

        Raises: RequestError ``repair.provider_unknown``.
        """
        if wish.provider not in self.providers:
            known = ", ".join(sorted(self.providers))
            message = f"there is no provider {wish.provider[:64]!r}; there are {known}"
            raise RequestError("repair.provider_unknown", message, field="repair.provider")

    async def record(self, attempt: Attempt, wish: RepairWish) -> None:
        """Have an attempt repaired if it fails, as its submission asks for. Asking twice is asking once."""
        if not await self.store.of_attempt(attempt.id):
            repair = self.new(attempt, wish)
            await self.store.save(repair)
            self.recorded.put_nowait(repair)

    def new(self, attempt: Attempt, wish: RepairWish) -> Repair:
        """Return a repair of an attempt that is not on record yet."""
        now = self.clock.now()
        return Repair(
            id=self.ids.new(),
            attempt_id=attempt.id,
            kind=attempt.kind,
            provider=wish.provider,
            uid=attempt.peer.uid,
            max_attempts=wish.max_attempts or self.max_attempts,
            started_at=now,
            ends_at=now + self.timeout,
        )
