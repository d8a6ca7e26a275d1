"""A bundle: the files of one attempt and run, and how its folder and files are named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from assayd.model.attempt import Artifact


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
    """A durable bundle: its location and its files."""

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
