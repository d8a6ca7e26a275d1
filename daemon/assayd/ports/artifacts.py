"""The interfaces to the store of bundles, and to the signer of verdicts if the operator configured a key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from assayd.model.attempt import Attempt, Bundle, WrittenBundle
from assayd.model.batch import Batch, BatchItem
from assayd.model.policy import Enforcement
from assayd.model.report import Verdict
from assayd.model.run import ContainerFacts

BuildAttachments = Callable[[Attempt, Verdict], Awaitable[Mapping[str, bytes]]]
"""Returns the additional files for the bundle of a chain's attempt, by name. The result is empty for other
attempts.
"""


async def build_no_attachments(attempt: Attempt, verdict: Verdict) -> Mapping[str, bytes]:
    """Return an empty mapping, because chains are the only source of attachments."""
    return {}


class ArtifactStore(Protocol):
    """A store of read-only bundles, which are written atomically. All methods can raise StoreError."""

    async def write(self, bundle: Bundle) -> WrittenBundle:
        """Write a bundle durably and atomically."""
        ...

    def path(self, location: str) -> Path | None:
        """Return the folder of a bundle, or None if bundles aren't folders."""
        ...

    async def read(self, location: str, name: str) -> bytes:
        """Return the content of one file. Raises: StoreError ``artifact.missing``, if it doesn't exist."""
        ...

    def read_chunks(self, location: str, name: str) -> AsyncIterator[bytes]:
        """Return one file in pieces of limited size.

        Raises: StoreError ``artifact.missing``, if it doesn't exist.
        """
        ...

    def stream_tar(self, location: str) -> AsyncIterator[bytes]:
        """Return the whole bundle as a tar stream."""
        ...

    async def remove(self, location: str) -> None:
        """Remove a bundle if it exists."""
        ...

    async def list_superseded(self) -> Sequence[str]:
        """Return the location of the first bundle of each attempt that has two bundles."""
        ...

    async def sweep(self) -> int:
        """Remove the leftovers of interrupted writes, and return their number."""
        ...

    async def free_bytes(self) -> int:
        """Return the number of free bytes in the store."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcludedAttempt:
    """A finished attempt, before its bundle is written.

    `container` is None if nothing ran. `findings` contains counts by severity; `cases` contains counts by
    status, or is None if nothing ran. `files` contains the bundle's files by name. `sources`
    contains the texts that were checked and run, by location in the payload, e.g. ``files.adapter.py``.
    """

    attempt: Attempt
    policy_digest: str
    enforcement: Enforcement | None
    container: ContainerFacts | None
    limits: Mapping[str, object]
    findings: Mapping[str, int]
    cases: Mapping[str, int] | None
    score: float | None
    validated_at: datetime | None
    files: Mapping[str, bytes]
    sources: Sequence[tuple[str, str]]


class Attester(Protocol):
    """A signer of results of attempts and batches. Methods raise AssaydError ``attestation.failed``."""

    async def attest(self, concluded: ConcludedAttempt) -> bytes:
        """Return the signed statement of an attempt."""
        ...

    async def attest_batch(self, batch: Batch, items: Sequence[tuple[BatchItem, Attempt | None]]) -> bytes:
        """Return the signed statement of a finished batch.

        Each item is passed with its attempt, if the attempt still exists.
        """
        ...
