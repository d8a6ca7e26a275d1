"""Where attempts run: in containers of this host, or wherever else a program sees to it.

The scheduler decides which attempt is carried out when; how, it leaves to an `Execute`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from assayd.attempts.attempt_run import Finished, Job
from assayd.attempts.selftest import SelfTest
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt
from assayd.model.health import HealthRow
from assayd.ports.driving import ALONE, Driving


class Execute(Protocol):
    """A function that carries out one attempt whose submission has been read."""

    async def __call__(self, job: Job) -> Finished:
        """Return the attempt with its verdict, which is on record then.

        Raises: Abandoned, if the program stops before the outcome is decided.
        """
        ...


class Readiness(Protocol):
    """The readiness to run attempts, and the reasons against it."""

    tried: asyncio.Event
    """Set once getting ready has succeeded or failed for the first time."""

    def ready(self) -> tuple[bool, str]:
        """Return whether attempts can be run, and why not."""
        ...

    async def prepare(self) -> None:
        """Get ready, however long it takes."""
        ...

    async def keep_ready(self) -> NoReturn:
        """Restore readiness whenever it is lost."""
        ...

    async def keep_sweeping(self) -> None:
        """Remove leftovers repeatedly."""
        ...

    def image_problem(self, name: str) -> str:
        """Return why nothing can be run in an image; empty if nothing is known against it."""
        ...

    async def image_digest(self, name: str) -> str:
        """Return the digest of the image that a name refers to now. Raises: EngineError."""
        ...

    def show(self, metrics: Metrics) -> None:
        """Set the gauges to what there is now."""
        ...

    async def examine(self) -> Sequence[HealthRow]:
        """Run the examinations that need no container."""
        ...

    async def examine_isolation(self) -> HealthRow:
        """Test the isolation of the containers."""
        ...


class Elsewhere(Protocol):
    """Access to attempts that are carried out by other processes."""

    async def attend(self, attempt: Attempt) -> None:
        """Have the events of an unfinished attempt shown here too, from its beginning."""
        ...

    async def ended(self, attempt_id: str, timeout_s: float) -> None:
        """Wait for the verdict of an attempt, no longer than a time."""
        ...

    async def cancel(self, attempt_id: str) -> bool:
        """Have an attempt ended; False when it has a verdict, or there is none of that id."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The parts that run attempts: an executor, its readiness and a self-test.

    `selftest` runs samples of kinds there; None if each host does that itself. `elsewhere` has the attempts
    of other processes; None for a single process. `driving` decides which process continues long work.
    """

    execute: Execute
    readiness: Readiness
    selftest: SelfTest | None
    elsewhere: Elsewhere | None = None
    driving: Driving = ALONE
