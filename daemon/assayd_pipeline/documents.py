"""Defines the API documents of stored pipelines, their steps, and the runs of steps."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from assayd.documents.base import BaseDocument, Timestamp
from assayd.ports.service import AttemptFix
from assayd_pipeline.stored import PipelineAttempt, PipelineStatus, StoredPipeline


class PipelineDocument(BaseDocument):
    """A pipeline in a listing."""

    id: str = Field(description="Id: that of the attempt that created it.")
    status: PipelineStatus = Field(description="State after its last attempt.")
    uid: int = Field(description="User id of the owner.")
    created_at: Timestamp = Field(description="When it was submitted.")
    updated_at: Timestamp = Field(description="When its last attempt was submitted.")


class PipelinePageDocument(BaseDocument):
    """A page of pipelines."""

    pipelines: list[PipelineDocument] = Field(description="The pipelines, newest first.")
    next_cursor: str | None = Field(description="Start of the next page; null on the last page.")


class StoredStepDocument(BaseDocument):
    """A stored step."""

    step_id: int = Field(description="Id of the step; a repair keeps it.")
    position: int = Field(description="Number of the step, from 1.")
    name: str = Field(description="Name of the step.")
    type: Literal["bash", "sql"] = Field(description="Type of the step.")
    content: str = Field(description="Text of the step.")


class StepRunDocument(BaseDocument):
    """One run of one step."""

    step_id: int | None = Field(description="The stored step; null if it was deleted.")
    pipeline_id: str = Field(description="The pipeline.")
    position: int = Field(description="Number of the step, from 1.")
    name: str = Field(description="Its name at that time.")
    run_time: Timestamp | None = Field(description="When it was started.")
    is_successful: bool = Field(description="Whether it ended with exit code 0 and without errors.")
    stdout: str = Field(description="Standard output, head and tail.")
    stderr: str = Field(description="Standard error, head and tail.")
    exit_code: int | None = Field(description="Exit code; null if it was killed, or refused before it ran.")
    execution_time_ms: int = Field(description="Duration of the step.")


class PipelineFixDocument(BaseDocument):
    """The fix that an attempt tries, as recorded by the repair."""

    repair_id: str = Field(description="The repair.")
    number: int = Field(description="Number of the fix in the repair, from 1.")
    provider: str = Field(description="Its provider.")
    passage: str = Field(description="The replaced part: the number of a step, or `all steps`.")
    reason: str = Field(description="The provider's reason.")
    hint: str | None = Field(description="Hint of the user.")


class PipelineAttemptDocument(BaseDocument):
    """One attempt of a pipeline."""

    attempt_id: str = Field(description="The attempt.")
    verdict: str | None = Field(description="Its verdict; null until then.")
    created_at: Timestamp = Field(description="When it was accepted.")
    parent_id: str | None = Field(description="The attempt that it follows.")
    fix: PipelineFixDocument | None = Field(
        description="The fix that it tries; null if it isn't part of a repair."
    )
    steps: list[StepRunDocument] = Field(description="The steps that it ran, in order, or that were refused.")


class PipelineDetailDocument(PipelineDocument):
    """A pipeline with its steps and attempts."""

    steps: list[StoredStepDocument] = Field(description="Its steps, in order.")
    attempts: list[PipelineAttemptDocument] = Field(description="Its attempts, newest first.")


def to_pipeline_row(pipeline: StoredPipeline) -> PipelineDocument:
    """Return the document of a pipeline for a listing."""
    return PipelineDocument.from_value(pipeline)


def to_pipeline_document(
    pipeline: StoredPipeline, fixes: Mapping[str, AttemptFix | None] = MappingProxyType({})
) -> PipelineDetailDocument:
    """Return the document of a pipeline with its steps and attempts; `fixes` is keyed by attempt."""
    return PipelineDetailDocument.from_value(
        pipeline,
        steps=[StoredStepDocument.from_value(step, step_id=step.id) for step in pipeline.steps],
        attempts=[
            _to_attempt_document(attempt, fixes.get(attempt.attempt_id)) for attempt in pipeline.attempts
        ],
    )


def _to_attempt_document(attempt: PipelineAttempt, fix: AttemptFix | None) -> PipelineAttemptDocument:
    steps = [StepRunDocument.from_value(step) for step in attempt.steps]
    shown = None if fix is None else PipelineFixDocument.from_value(fix)
    return PipelineAttemptDocument.from_value(attempt, fix=shown, steps=steps)
