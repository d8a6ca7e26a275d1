"""Documents about the daemon: its kinds and profiles, its health, and the results of garbage collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from assayd.documents.base import BaseDocument
from assayd.model.finding import Rule
from assayd.model.health import HealthRow, HealthStatus
from assayd.ports.command_line import KindCommandLine

if TYPE_CHECKING:
    from assayd.kind import Kind


class KindOptionDocument(BaseDocument):
    """A command-line option of `assay validate`."""

    name: str = Field(description="Its name, as in `--option NAME=VALUE`.")
    help: str = Field(description="Meaning of the option.")


class KindDocument(BaseDocument):
    """A kind of submission, with its payload, stages and rules."""

    kind: str = Field(description="Its name.")
    default_policy: str = Field(description="The default profile.")
    image: str = Field(description="The image that it runs in.")
    stages: list[str] = Field(description="Its stages, in order.")
    payload_schema: dict[str, Any] = Field(description="JSON Schema of the payload.")
    context_schema: dict[str, Any] | None = Field(
        description="JSON Schema of a generation's `context`; null if the kind can't be generated."
    )
    writers: list[str] = Field(description="Providers that can generate it.")
    rules: list[Rule] = Field(description="Its rules.")
    options: list[KindOptionDocument] = Field(description="Options of `assay validate --option`.")
    forms: list[str] = Field(description="Additional report forms for `assay show --form`.")
    example: dict[str, Any] | None = Field(description="A payload that passes; null if the kind has none.")


class KindListDocument(BaseDocument):
    """The kinds that can be submitted."""

    kinds: list[KindDocument] = Field(description="The kinds.")


class PolicyListDocument(BaseDocument):
    """A list of all profiles."""

    policies: list[dict[str, Any]] = Field(description="The profiles with effective values.")


class PolicyProblemDocument(BaseDocument):
    """One error in a profile."""

    line: int | None = Field(description="Line, from 1; null if unknown.")
    key: str = Field(description="Dotted key; empty for the whole file.")
    message: str = Field(description="The error.")


class PolicyCheckDocument(BaseDocument):
    """The effective values of a checked profile, or its errors."""

    problems: list[PolicyProblemDocument] = Field(description="Errors; empty if there are none.")
    policy: dict[str, Any] | None = Field(description="Its effective values; null with problems.")


def build_kind_document(validator: Kind, shown: KindCommandLine, writers: Sequence[str]) -> KindDocument:
    """Return the document of a kind. `shown` is the kind's description for the command line.

    `writers` contains the configured providers that can write code.
    """
    good = next((sample for sample in validator.samples if sample.verdict == "validated"), None)
    return KindDocument.from_value(
        validator,
        kind=validator.name,
        stages=[*(stage.name for stage in validator.stages), *validator.runtime_stages],
        payload_schema=validator.payload.model_json_schema(),
        context_schema=(
            None if validator.generation_context is None else validator.generation_context.model_json_schema()
        ),
        writers=list(writers) if validator.generation_context is not None else [],
        rules=list(validator.rules),
        options=[KindOptionDocument.from_value(option) for option in shown.options],
        forms=list(shown.forms),
        example=None if good is None else dict(good.payload),
    )


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
    bundles: int = Field(description="Bundles of lost runs, and bundles removed for disk space.")
    disk_bytes: int = Field(description="Disk space of these attempts.")


def build_examination_document(rows: Sequence[HealthRow]) -> ExaminationDocument:
    """Return the document of health checks."""
    return ExaminationDocument.model_construct(
        checks=[CheckDocument.from_value(row, took_ms=round(row.took_s * 1000, 3)) for row in rows], age_ms=0
    )
