"""Messages between the daemon and an analysis worker, as JSON in frames.

A worker has parsed untrusted text, so the daemon validates its messages like any other input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from pydantic import TypeAdapter

from assayd.model.policy import ExecutionPolicy
from assayd.model.prompting import ExtractedFields, PromptParts, Proposal, RepairContext
from assayd.model.report import StageReport

T = TypeVar("T")

POLICY: TypeAdapter[ExecutionPolicy] = TypeAdapter(ExecutionPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAnswer:
    """A worker's response: the result of each static stage, and the prepared fields.

    `prepared` contains only the fields that preparation changed. It is None if no field was changed.
    """

    stages: tuple[StageReport, ...]
    prepared: dict[str, object] | None


ANSWER: TypeAdapter[WorkerAnswer] = TypeAdapter(WorkerAnswer)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedSubmission:
    """The submission to repair, with the report of its failure."""

    payload: dict[str, object]
    report: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchRequest:
    """A fix for a submission: new text for one passage, or the files or steps that the model proposes."""

    payload: dict[str, object]
    passage: str
    proposal: Proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairDescription:
    """The request for a fix, and the digest of the submission's normalized form."""

    context: RepairContext
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchResult:
    """The patched payload and its normalized form's digest, or the reason why the fix can't be applied."""

    payload: dict[str, object]
    digest: str
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationBriefing:
    """A kind's section of a generation prompt, and the payload without the generated parts."""

    briefing: PromptParts
    base: dict[str, object]


FAILED: TypeAdapter[FailedSubmission] = TypeAdapter(FailedSubmission)
PATCH_ADAPTER: TypeAdapter[PatchRequest] = TypeAdapter(PatchRequest)
DESCRIPTION_ADAPTER: TypeAdapter[RepairDescription] = TypeAdapter(RepairDescription)
PATCHED_ADAPTER: TypeAdapter[PatchResult] = TypeAdapter(PatchResult)
TAKEN: TypeAdapter[ExtractedFields] = TypeAdapter(ExtractedFields)
BRIEFING_ADAPTER: TypeAdapter[GenerationBriefing] = TypeAdapter(GenerationBriefing)

EXHAUSTED = 86
"""Exit status of a worker that ran out of memory or exceeded the recursion limit."""

MAX_KNOWN_POLICIES = 64
"""Maximum policies that a worker keeps; the oldest is removed first."""


def remember_policy(known: dict[str, T], digest: str, value: T) -> None:
    """Add a policy to the known policies. If there are too many, remove the one added first.

    The daemon and the worker both use this function, so that both know the same policies.
    """
    known[digest] = value
    if len(known) > MAX_KNOWN_POLICIES:
        del known[next(iter(known))]
