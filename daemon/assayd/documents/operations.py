"""Answers about the daemon itself: its health, and what retention removed."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from assayd.documents.base import BaseDocument
from assayd.model.health import Health, HealthRow


class CheckDocument(BaseDocument):
    """One check of the daemon's health."""

    check: str = Field(description="What was looked at.")
    status: Health = Field(description="What it came to.")
    detail: str = Field(description="What was seen.")
    remedy: str = Field(description="What to do; empty when nothing is.")
    took_ms: float = Field(description="How long it took; 0 for what takes no time to speak of.")


class ExaminationDocument(BaseDocument):
    """The daemon's health."""

    checks: list[CheckDocument] = Field(description="The checks.")
    age_ms: float = Field(description="How long ago it was; 0 for a fresh one.")


class DaemonDocument(BaseDocument):
    """Who the daemon is, and where its state lies."""

    daemon_id: str = Field(description="The id that its containers carry.")
    version: str = Field(description="The version of the program.")
    state_dir: str = Field(description="The directory of database and bundles, as the daemon sees it.")
    database_in_state: bool = Field(description="False when `database_url` names another database.")


class StatusDocument(BaseDocument):
    """That the daemon answers."""

    status: str = Field(description="`ok` or `ready`.")


class GarbageDocument(BaseDocument):
    """What retention removed, or would remove."""

    dry_run: bool = Field(description="Whether nothing was removed.")
    attempts: int = Field(description="Finished attempts, with their bundles.")
    bundles: int = Field(description="Bundles of lost runs, beside the one that counts.")
    disk_bytes: int = Field(description="Room on the disk that the attempts took.")


def examination_document(rows: Sequence[HealthRow]) -> ExaminationDocument:
    """Return the daemon's health."""
    return ExaminationDocument.model_construct(
        checks=[CheckDocument.from_value(row, took_ms=round(row.took_s * 1000, 3)) for row in rows], age_ms=0
    )
