"""Where bundles go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from assayd.model.attempt import Attempt
from assayd.model.bundle import Bundle, Written
from assayd.model.report import Verdict

BundleAttachments = Callable[[Attempt, Verdict], Awaitable[Mapping[str, bytes]]]
"""Returns the further files in the bundle of an attempt of a chain, by name."""


async def no_attachments(attempt: Attempt, verdict: Verdict) -> Mapping[str, bytes]:
    """Return no files."""
    return {}


class ArtifactStore(Protocol):
    """Bundles: written whole or not at all, then read-only. Raises StoreError."""

    async def write(self, bundle: Bundle) -> Written:
        """Write a bundle durably."""
        ...

    def path(self, location: str) -> Path | None:
        """Return the folder of a bundle; None if bundles aren't folders."""
        ...

    async def read(self, location: str, name: str) -> bytes:
        """Return one file. Raises: StoreError ``artifact.missing``."""
        ...

    def pieces(self, location: str, name: str) -> AsyncIterator[bytes]:
        """Return one file in pieces of a bounded size. Raises: StoreError ``artifact.missing``."""
        ...

    def tar(self, location: str) -> AsyncIterator[bytes]:
        """Return the whole bundle as a tar stream."""
        ...

    async def remove(self, location: str) -> None:
        """Remove a bundle; one that is gone is fine."""
        ...

    async def doubles(self) -> Sequence[str]:
        """Name the first bundle of every attempt that has two."""
        ...

    async def sweep(self) -> int:
        """Remove what an interrupted write has left; return how many."""
        ...

    async def free_bytes(self) -> int:
        """Return how much room is left."""
        ...
