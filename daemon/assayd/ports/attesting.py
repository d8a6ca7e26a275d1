"""The interface for signing verdicts, used if the operator configured a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from assayd.model.attempt import Attempt
from assayd.model.batch import Batch, Item
from assayd.model.policy import Enforcement
from assayd.model.run import ContainerFacts

ATTESTATION = "attestation.json"
"""The file name of the attestation in a bundle."""


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

    async def attest_batch(self, batch: Batch, items: Sequence[tuple[Item, Attempt | None]]) -> bytes:
        """Return the signed statement of a finished batch.

        Each item is passed with its attempt, if the attempt still exists.
        """
        ...
