"""Stored pipelines, their steps and what each run of a step came to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from assayd.documents.base import BaseDocument, Timestamp
from assayd.ports.chains import AttemptFix
from assayd_pipeline.stored import PipelineAttempt, PipelineStatus, StoredPipeline


class PipelineDocument(BaseDocument):
    """A pipeline as a listing has it."""

    id: str = Field(description="Id: that of the attempt that brought it.")
    status: PipelineStatus = Field(description="How it stands by its last attempt.")
    uid: int = Field(description="Whose it is.")
    created_at: Timestamp = Field(description="When it was submitted.")
    updated_at: Timestamp = Field(description="When an attempt of it was submitted last.")


class PipelinePageDocument(BaseDocument):
    """A page of pipelines."""

    pipelines: list[PipelineDocument] = Field(description="Newest first.")
    next_cursor: str | None = Field(description="Where the next page begins; null at the end.")


class StoredStepDocument(BaseDocument):
    """A step as it is stored."""

    step_id: int = Field(description="Id; stays when the step is repaired.")
    position: int = Field(description="Its place, from 1.")
    name: str = Field(description="Its name.")
    type: Literal["bash", "sql"] = Field(description="What it is.")
    content: str = Field(description="Its text.")


class StepRunDocument(BaseDocument):
    """One run of one step."""

    step_id: int | None = Field(description="The stored step; null when it is there no more.")
    pipeline_id: str = Field(description="The pipeline.")
    position: int = Field(description="Its place, from 1.")
    name: str = Field(description="Its name then.")
    run_time: Timestamp | None = Field(description="When it was started.")
    is_successful: bool = Field(
        description="Whether it ended with exit code 0 and nothing speaks against it."
    )
    stdout: str = Field(description="Standard output, head and tail.")
    stderr: str = Field(description="Standard error, head and tail.")
    exit_code: int | None = Field(description="Exit code; null if it was killed, or refused before it ran.")
    execution_time_ms: int = Field(description="How long it took.")


class PipelineFixDocument(BaseDocument):
    """The fix that an attempt tries, as its repair has it."""

    repair_id: str = Field(description="The repair.")
    number: int = Field(description="Which fix of it, from 1.")
    provider: str = Field(description="Who gave it.")
    passage: str = Field(description="What was replaced: a step by its number, or `all steps`.")
    reason: str = Field(description="Why, in the provider's words.")
    hint: str | None = Field(description="What a person had to say of it.")


class PipelineAttemptDocument(BaseDocument):
    """One attempt of a pipeline."""

    attempt_id: str = Field(description="The attempt.")
    verdict: str | None = Field(description="Its verdict; null until then.")
    created_at: Timestamp = Field(description="When it was accepted.")
    parent_id: str | None = Field(description="The attempt that it follows.")
    fix: PipelineFixDocument | None = Field(description="The fix that it tries; null for one that is none.")
    steps: list[StepRunDocument] = Field(description="The steps that it ran, in order, or that were refused.")


class PipelineDetailDocument(PipelineDocument):
    """A pipeline with its steps and attempts."""

    steps: list[StoredStepDocument] = Field(description="Its steps, in order.")
    attempts: list[PipelineAttemptDocument] = Field(description="Its attempts, newest first.")


def pipeline_row(pipeline: StoredPipeline) -> PipelineDocument:
    """Return a pipeline as a listing has it."""
    return PipelineDocument.from_value(pipeline)


def pipeline_document(
    pipeline: StoredPipeline, fixes: Mapping[str, AttemptFix | None] = MappingProxyType({})
) -> PipelineDetailDocument:
    """Return a pipeline with its steps, and its attempts with the fix that each runs, by attempt."""
    return PipelineDetailDocument.from_value(
        pipeline,
        steps=[StoredStepDocument.from_value(step, step_id=step.id) for step in pipeline.steps],
        attempts=[_attempt(attempt, fixes.get(attempt.attempt_id)) for attempt in pipeline.attempts],
    )


def _attempt(attempt: PipelineAttempt, fix: AttemptFix | None) -> PipelineAttemptDocument:
    steps = [StepRunDocument.from_value(step) for step in attempt.steps]
    shown = None if fix is None else PipelineFixDocument.from_value(fix)
    return PipelineAttemptDocument.from_value(attempt, fix=shown, steps=steps)
