"""Defines where attempts run: in containers of this host, or in a location that a program provides.

The scheduler decides when each attempt runs; an `Execute` function decides how each attempt runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from assayd.attempts.attempt_run import Finished, Job
from assayd.attempts.health import SelfTest
from assayd.metrics import Metrics
from assayd.model.attempt import Attempt
from assayd.model.health import HealthRow
from assayd.ports.driving import ALONE, Driving


class Execute(Protocol):
    """A function that runs one attempt whose submission has been read."""

    async def __call__(self, job: Job) -> Finished:
        """Run the attempt, record its verdict, and return the attempt with the verdict.

        Raises: Abandoned, if the program stops before the outcome is decided.
        """
        ...


class Readiness(Protocol):
    """The readiness to run attempts, and the reasons if they can't be run."""

    tried: asyncio.Event
    """Set once getting ready has succeeded or failed for the first time."""

    def ready(self) -> tuple[bool, str]:
        """Return whether attempts can be run, and why not."""
        ...

    async def prepare(self) -> None:
        """Become ready, regardless of how long this takes."""
        ...

    async def keep_ready(self) -> NoReturn:
        """Restore readiness whenever it is lost."""
        ...

    async def keep_sweeping(self) -> None:
        """Remove leftovers periodically."""
        ...

    def image_problem(self, name: str) -> str:
        """Return why an image can't be used to run anything; empty if no problem is known."""
        ...

    async def image_digest(self, name: str) -> str:
        """Return the digest of the image to which a name currently refers. Raises: EngineError."""
        ...

    def show(self, metrics: Metrics) -> None:
        """Set the gauges to the current values."""
        ...

    async def examine(self) -> Sequence[HealthRow]:
        """Run the health checks that need no container."""
        ...

    async def examine_isolation(self) -> HealthRow:
        """Test the isolation of the containers."""
        ...


class Elsewhere(Protocol):
    """Access to attempts that run in other processes."""

    async def attend(self, attempt: Attempt) -> None:
        """Publish the events of an unfinished attempt in this process too, from its first event."""
        ...

    async def ended(self, attempt_id: str, timeout_s: float) -> None:
        """Wait for the verdict of an attempt, up to a timeout."""
        ...

    async def cancel(self, attempt_id: str) -> bool:
        """Cancel an attempt; return False if it already has a verdict or if no attempt has this id."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The components that run attempts: an executor, its readiness and a self-test.

    `selftest` runs samples of kinds with this executor; None if each host tests itself. `elsewhere`
    provides access to the attempts of other processes; None if there is only one process. `driving` decides
    which process continues long-running work.
    """

    execute: Execute
    readiness: Readiness
    selftest: SelfTest | None
    elsewhere: Elsewhere | None = None
    driving: Driving = ALONE
