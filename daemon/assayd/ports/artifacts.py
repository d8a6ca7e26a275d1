"""Where bundles go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from assayd.model.attempt import Artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The files of one attempt and run, before they are written.

    `files` maps names as CONTRACT section 5 gives them (relative, daemon-chosen) to content;
    `truncated` names those that were cut. `manifest` is added to ``manifest.json``.
    """

    attempt_id: str
    run_number: int
    created_at: datetime
    category: str
    platform: str
    files: Mapping[str, bytes]
    truncated: frozenset[str] = frozenset()
    manifest: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A bundle that is durable: its location, and what is in it."""

    location: str
    artifacts: tuple[Artifact, ...]


class ArtifactStore(Protocol):
    """Bundles: written whole or not at all, then read-only. Raises StoreError."""

    async def write(self, bundle: Bundle) -> Written:
        """Write a bundle durably."""
        ...

    async def read(self, location: str, name: str) -> bytes:
        """Give one file. Raises: StoreError ``artifact.missing``."""
        ...

    def tar(self, location: str) -> AsyncIterator[bytes]:
        """Give the whole bundle as a tar stream."""
        ...

    async def remove(self, location: str) -> None:
        """Remove a bundle; one that is gone is fine."""
        ...

    async def sweep(self) -> int:
        """Remove what an interrupted write has left; give how many."""
        ...

    async def free_bytes(self) -> int:
        """Tell how much room is left."""
        ...
