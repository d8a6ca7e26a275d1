"""Write stored pipelines, their steps and what each run of a step came to."""

from __future__ import annotations

from assayd.documents.attempts import Document, timestamp
from assayd.kinds.pipeline.stored import PipelineAttempt, PipelineStep, StepRun, StoredPipeline


def pipeline_row(pipeline: StoredPipeline) -> Document:
    """Write a pipeline as a listing has it."""
    return {
        "id": pipeline.id,
        "status": pipeline.status.value,
        "uid": pipeline.uid,
        "created_at": timestamp(pipeline.created_at),
        "updated_at": timestamp(pipeline.updated_at),
    }


def pipeline_document(pipeline: StoredPipeline) -> Document:
    """Write a pipeline with its steps, and its attempts with the steps that each ran."""
    return {
        **pipeline_row(pipeline),
        "steps": [_step(step) for step in pipeline.steps],
        "attempts": [_attempt(attempt) for attempt in pipeline.attempts],
    }


def _step(step: PipelineStep) -> Document:
    return {
        "step_id": step.id,
        "position": step.position,
        "name": step.name,
        "type": step.type,
        "content": step.content,
    }


def _attempt(attempt: PipelineAttempt) -> Document:
    return {
        "attempt_id": attempt.attempt_id,
        "verdict": attempt.verdict,
        "created_at": timestamp(attempt.created_at),
        "parent_id": attempt.parent_id,
        "steps": [_step_run(step) for step in attempt.steps],
    }


def _step_run(step: StepRun) -> Document:
    return {
        "step_id": step.step_id,
        "pipeline_id": step.pipeline_id,
        "position": step.position,
        "name": step.name,
        "run_time": timestamp(step.run_time),
        "is_successful": step.is_successful,
        "stdout": step.stdout,
        "stderr": step.stderr,
        "exit_code": step.exit_code,
        "execution_time_ms": step.execution_time_ms,
    }
