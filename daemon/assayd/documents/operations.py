"""Documents about the daemon itself: its health, and the results of garbage collection."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from assayd.documents.base import BaseDocument
from assayd.model.health import HealthRow, HealthStatus


class CheckDocument(BaseDocument):
    """One check of the daemon's health."""

    check: str = Field(description="Name of the check.")
    status: HealthStatus = Field(description="Result of the check.")
    detail: str = Field(description="Details of the result.")
    remedy: str = Field(description="What to do; empty if nothing.")
    took_ms: float = Field(description="Duration; 0 if negligible.")


class ExaminationDocument(BaseDocument):
    """The daemon's health."""

    checks: list[CheckDocument] = Field(description="The checks.")
    age_ms: float = Field(description="Age of the result; 0 if new.")


class DaemonDocument(BaseDocument):
    """The daemon's identity and state folder."""

    daemon_id: str = Field(description="The id on its containers.")
    version: str = Field(description="The version of the program.")
    state_dir: str = Field(description="The directory of database and bundles, as the daemon sees it.")
    database_in_state: bool = Field(description="False when `database_url` names another database.")


class StatusDocument(BaseDocument):
    """A document that reports that the daemon is running."""

    status: str = Field(description="`ok` or `ready`.")


class ReadinessDocument(StatusDocument):
    """A document that reports that the daemon can run attempts."""

    max_runs: int = Field(description="The largest `max_runs` that a submission can have.")


class GarbageDocument(BaseDocument):
    """The attempts and bundles that garbage collection deleted, or would delete in a dry run."""

    dry_run: bool = Field(description="Whether nothing was removed.")
    attempts: int = Field(description="Finished attempts, with their bundles.")
    bundles: int = Field(description="Bundles of lost runs.")
    disk_bytes: int = Field(description="Disk space of these attempts.")


def examination_document(rows: Sequence[HealthRow]) -> ExaminationDocument:
    """Return the document of health checks."""
    return ExaminationDocument.model_construct(
        checks=[CheckDocument.from_value(row, took_ms=round(row.took_s * 1000, 3)) for row in rows], age_ms=0
    )
