"""Stored pipelines: their steps, what has become of each attempt, and a row for each step that was run.

Source: docs/kinds/pipeline.md.4 and 4.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class PipelineStatus(StrEnum):
    """How a pipeline stands, by its last attempt."""

    CREATED = "created"
    """No attempt of it has started yet."""
    RUNNING = "running"
    """An attempt of it runs."""
    SUCCESS = "success"
    """All steps ended with exit code 0."""
    FAILED = "failed"
    """A step failed, a stage refused it, or the attempt came to nothing; the attempt's verdict says which."""
    REPAIRED = "repaired"
    """It succeeded in an attempt that follows one that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStep:
    """One step as it is stored; `position` counts from 1."""

    id: int
    position: int
    name: str
    type: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRun:
    """One step that was run or refused. `exit_code` is None when it was killed or refused."""

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
    """One attempt of a pipeline, with the steps that it ran, in order."""

    attempt_id: str
    verdict: str | None
    created_at: datetime
    parent_id: str | None
    steps: tuple[StepRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPipeline:
    """A pipeline. Its id is that of the attempt that brought it; `uid` is whose it is."""

    id: str
    uid: int
    status: PipelineStatus
    created_at: datetime
    updated_at: datetime
    steps: tuple[PipelineStep, ...] = ()
    attempts: tuple[PipelineAttempt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineQuery:
    """Which pipelines a listing wants; None = any. `before` is the id that the page before ended with."""

    uid: int | None = None
    status: PipelineStatus | None = None
    attempt_id: str | None = None
    before: str | None = None
    limit: int = 50


class Pipelines(Protocol):
    """The pipelines on record. Raises StoreError."""

    async def get(self, pipeline_id: str) -> StoredPipeline | None:
        """Return a pipeline with its steps and attempts, newest first."""
        ...

    async def list(self, query: PipelineQuery) -> Sequence[StoredPipeline]:
        """List pipelines, newest first, without steps and attempts."""
        ...
