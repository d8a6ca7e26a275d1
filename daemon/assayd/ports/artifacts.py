"""Where bundles go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from assayd.model.attempt import Artifact, Attempt
from assayd.model.report import Verdict

BundleAttachments = Callable[[Attempt, Verdict], Awaitable[Mapping[str, bytes]]]
"""Returns the files that the bundle of an attempt of a chain has beside its own, by name."""


async def no_attachments(attempt: Attempt, verdict: Verdict) -> Mapping[str, bytes]:
    """Return no files."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The files of one attempt and run, before they are written.

    `files` maps names as docs/result-contract.md gives them (relative, daemon-chosen) to content;
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


BLOCK_BYTES = 4096
"""What a file takes on disk at least, and in multiples of it."""


def disk_bytes(artifacts: Iterable[Artifact]) -> int:
    """Return what the files of a bundle take on disk."""
    return sum(-(-artifact.bytes // BLOCK_BYTES) * BLOCK_BYTES for artifact in artifacts)


SECOND_RUN = ".run2"
"""How the location ends of an attempt's second bundle."""


def superseded_by(location: str) -> str | None:
    """Name the bundle that a second one has taken the place of, if there can be one."""
    return location.removesuffix(SECOND_RUN) if location.endswith(SECOND_RUN) else None


def stamp(created_at: datetime) -> str:
    """Write the time that names a bundle and its files."""
    return created_at.strftime("%Y%m%dT%H%M%S.%fZ")


class ArtifactStore(Protocol):
    """Bundles: written whole or not at all, then read-only. Raises StoreError."""

    async def write(self, bundle: Bundle) -> Written:
        """Write a bundle durably."""
        ...

    def path(self, location: str) -> Path | None:
        """Return the folder of a bundle; None where bundles are no folders."""
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
