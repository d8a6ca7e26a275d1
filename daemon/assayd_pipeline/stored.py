"""Defines stored pipelines: their steps, their attempts with results, and a row for each executed step.

Source: docs/kinds/pipeline.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class PipelineStatus(StrEnum):
    """The status of a pipeline, which depends on its last attempt."""

    CREATED = "created"
    """None of its attempts has started."""
    RUNNING = "running"
    """One of its attempts is running."""
    SUCCESS = "success"
    """All steps ended with exit code 0."""
    FAILED = "failed"
    """A step failed, a stage rejected it, or the attempt had an error; the verdict says which."""
    REPAIRED = "repaired"
    """An attempt after a failed one succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStep:
    """One stored step; `position` is its 1-based position in the pipeline."""

    id: int
    position: int
    name: str
    type: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRun:
    """A step that was run or rejected. `exit_code` is None if the step was killed or rejected."""

    pipeline_id: str
    step_id: int | None
    attempt_id: str
    position: int
    name: str
    run_time: datetime | None
    is_successful: bool
    stdout: str
    stderr: str
    exit_code: int | None
    execution_time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineAttempt:
    """One attempt of a pipeline, with the steps that it ran in their order."""

    attempt_id: str
    verdict: str | None
    created_at: datetime
    parent_id: str | None
    steps: tuple[StepRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPipeline:
    """A pipeline. `id` is the id of the pipeline's first attempt, and `uid` is the owner."""

    id: str
    uid: int
    status: PipelineStatus
    created_at: datetime
    updated_at: datetime
    steps: tuple[PipelineStep, ...] = ()
    attempts: tuple[PipelineAttempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineQuery:
    """The filters of a listing; None matches any value. `before` is the last id on the previous page."""

    uid: int | None = None
    status: PipelineStatus | None = None
    attempt_id: str | None = None
    before: str | None = None
    limit: int = 50


class Pipelines(Protocol):
    """The store of pipelines. Raises: StoreError."""

    async def get(self, pipeline_id: str) -> StoredPipeline | None:
        """Return a pipeline with its steps and its attempts, starting with the newest attempt."""
        ...

    async def list(self, query: PipelineQuery) -> Sequence[StoredPipeline]:
        """List pipelines without steps and attempts, starting with the newest."""
        ...
