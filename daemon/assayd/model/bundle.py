"""The bundle: the files of one run of an attempt, and the name of its folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from assayd.model.attempt import Artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """The files of one run of an attempt, before they are written.

    `files` maps names (relative paths that the daemon chooses, see docs/result-contract.md) to content;
    `truncated` names the truncated files. `manifest` holds additional fields of ``manifest.json``.
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
    """A written bundle, with its location and its files."""

    location: str
    artifacts: tuple[Artifact, ...]


BLOCK_BYTES = 4096
"""The assumed block size of the file system, in bytes."""


def disk_bytes(artifacts: Iterable[Artifact]) -> int:
    """Return the disk space in bytes, rounded up to whole blocks, of the files of a bundle."""
    return sum(-(-artifact.bytes // BLOCK_BYTES) * BLOCK_BYTES for artifact in artifacts)


SECOND_RUN = ".run2"
"""The suffix of the location of an attempt's second bundle."""


def replaced_location(location: str) -> str | None:
    """Return the location of the first bundle that a second bundle replaces, or None for a first bundle."""
    return location.removesuffix(SECOND_RUN) if location.endswith(SECOND_RUN) else None


def stamp(created_at: datetime) -> str:
    """Return the timestamp used in the names of bundles and their files."""
    return created_at.strftime("%Y%m%dT%H%M%S.%fZ")
