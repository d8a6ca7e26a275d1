"""Defines the interface to the store of bundles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from assayd.model.attempt import Attempt, Bundle, Written
from assayd.model.report import Verdict

BundleAttachments = Callable[[Attempt, Verdict], Awaitable[Mapping[str, bytes]]]
"""Returns additional files for the bundle of a chain's attempt, by name."""


async def no_attachments(attempt: Attempt, verdict: Verdict) -> Mapping[str, bytes]:
    """Return an empty mapping of attached files."""
    return {}


class ArtifactStore(Protocol):
    """A store of read-only bundles, which are written atomically. All methods can raise StoreError."""

    async def write(self, bundle: Bundle) -> Written:
        """Write a bundle durably and atomically."""
        ...

    def path(self, location: str) -> Path | None:
        """Return the folder of a bundle, or None if bundles aren't folders."""
        ...

    async def read(self, location: str, name: str) -> bytes:
        """Return the content of one file. Raises: StoreError ``artifact.missing``."""
        ...

    def pieces(self, location: str, name: str) -> AsyncIterator[bytes]:
        """Return one file in pieces of limited size. Raises: StoreError ``artifact.missing``."""
        ...

    def tar(self, location: str) -> AsyncIterator[bytes]:
        """Return the whole bundle as a tar stream."""
        ...

    async def remove(self, location: str) -> None:
        """Remove a bundle if it exists."""
        ...

    async def doubles(self) -> Sequence[str]:
        """Return the location of the first bundle of each attempt that has two bundles."""
        ...

    async def sweep(self) -> int:
        """Remove the leftovers of interrupted writes; return their number."""
        ...

    async def free_bytes(self) -> int:
        """Return the number of free bytes in the store."""
        ...
